"""Prometheus and Grafana of a federation on one machine, under the profile `monitoring`."""

from __future__ import annotations

from typing import Any

from regionfed.deploy.settings import METRICS_PORT
from regionfed.deploy.topology import Topology

Service = dict[str, Any]


def monitoring_services(topology: Topology) -> dict[str, Service]:
    """The two services; Prometheus is on every tier's networks, Grafana sees Prometheus only."""
    networks = ["global-core", "monitoring"]
    for region in topology.regions:
        networks += [f"{region}-core", f"{region}-fleet"]
    return {
        "prometheus": {
            "image": "prom/prometheus:v3.5.0",
            "profiles": ["monitoring"],
            "restart": "unless-stopped",
            "networks": networks,
            "configs": [{"source": "prometheus", "target": "/etc/prometheus/prometheus.yml"}],
            "volumes": ["prometheus:/prometheus"],
            "deploy": {"resources": {"limits": {"memory": "1g"}}},
        },
        "grafana": {
            "image": "grafana/grafana:12.1.0",
            "profiles": ["monitoring"],
            "restart": "unless-stopped",
            "networks": ["monitoring", "monitoring-outside"],
            "ports": ["127.0.0.1:${REGIONFED_GRAFANA_PORT:-23000}:3000"],
            "configs": [
                {
                    "source": "grafana-sources",
                    "target": "/etc/grafana/provisioning/datasources/regionfed.yml",
                },
                {
                    "source": "grafana-boards",
                    "target": "/etc/grafana/provisioning/dashboards/regionfed.yml",
                },
                {"source": "grafana-regionfed", "target": "/dashboards/regionfed.json"},
            ],
            "volumes": ["grafana:/var/lib/grafana"],
            "depends_on": {"prometheus": {"condition": "service_started"}},
            "deploy": {"resources": {"limits": {"memory": "512m"}}},
        },
    }


def prometheus_config(topology: Topology) -> dict[str, Any]:
    """What Prometheus scrapes: one job per tier, with the region and the client as labels."""
    jobs: list[dict[str, Any]] = [_job("server", [(["global-superexec"], {})])]
    daemons, clients = [], []
    for region, members in topology.regions.items():
        daemons.append(([f"{region}-coordinator"], {"region": region}))
        clients += [
            ([f"{region}-{client}"], {"region": region, "client": client}) for client in members
        ]
    jobs += [_job("coordinator", daemons), _job("client", clients)]
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "scrape_configs": jobs,
    }


def _job(tier: str, hosts: list[tuple[list[str], dict[str, str]]]) -> dict[str, Any]:
    return {
        "job_name": tier,
        "static_configs": [
            {
                "targets": [f"{name}:{METRICS_PORT}" for name in names],
                "labels": {"tier": tier, **labels},
            }
            for names, labels in hosts
        ],
    }
