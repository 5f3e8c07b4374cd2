"""Whole Compose files: one for a machine that runs all tiers, or one per site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regionfed.deploy.compose_parts import (
    FEDERATION,
    Parts,
    Service,
    once_defaults,
    process_defaults,
)
from regionfed.deploy.compose_tiers import client_tier, global_tier, region_tier
from regionfed.deploy.keys import KeyStore, SecretKeys, VolumeKeys
from regionfed.deploy.monitoring import monitoring_services
from regionfed.deploy.topology import Topology
from regionfed.deploy.yaml_text import to_yaml

TOGETHER = """The whole federation on one machine. Rendered by `regionfed compose render`; change the
federation file, not this one.

  docker compose build                 # three images
  docker compose up                    # trains, prints progress, keeps serving; Ctrl-C stops
  docker compose up --exit-code-from run run  # shows only the run; ends with its result
  docker compose down && docker compose up # resumes

TLS and node authentication are on. Every site makes its own keys at its first start, in volumes
that no other site mounts. See docs/deployment.md."""

SITE = """Site {site} of a federation on separate hosts. Rendered by `regionfed compose render --split`.

  mkdir -p identity/{site} authority/{site} public
  echo "REGIONFED_UID=$(id -u)" >> .env
  docker compose -f {file} --profile setup run --rm {setup}
  docker compose -f {file} up -d

The first line keeps the engine from making these folders as root; the third makes this site's keys
in ./identity (they stay here) and writes what others need to
./public. See docs/deployment.md."""


def together(topology: Topology, *, config: str) -> str:
    """One file with every tier; `config` is the federation file's path as Compose sees it."""
    process = process_defaults()
    parts = Parts(topology, process, once_defaults(process), VolumeKeys())
    services = global_tier(parts)
    for number, region in enumerate(topology.regions):
        services |= region_tier(parts, region, builds=number == 0)
        for client in topology.regions[region]:
            first = number == 0 and client == topology.regions[region][0]
            services |= client_tier(parts, region, client, builds=first)
    services |= monitoring_services(topology)
    content = {
        "name": "regionfed",
        "x-process": process,
        "x-once": parts.once,
        "services": services,
        "networks": _networks(services, outside=()),
        "volumes": _volumes(services),
        "configs": {
            "federation": {"file": config},
            "prometheus": {"file": "./deploy/prometheus/prometheus.yml"},
            "grafana-sources": {"file": "./deploy/grafana/datasources.yml"},
            "grafana-boards": {"file": "./deploy/grafana/dashboards.yml"},
            "grafana-regionfed": {"file": "./deploy/grafana/regionfed.json"},
        },
    }
    return to_yaml(content, header=TOGETHER)


def split(topology: Topology, *, config: str) -> dict[str, str]:
    """One file per site by name: the global tier, each region, and each client."""
    files = {"global.yml": _site(topology, "global", config=config)}
    for region, clients in topology.regions.items():
        files[f"{region}.yml"] = _site(topology, region, config=config)
        for client in clients:
            files[f"{region}-{client}.yml"] = _site(topology, region, client=client, config=config)
    return files


def write_split(topology: Topology, folder: Path, *, config: str) -> list[Path]:
    """Write the files of `split` into `folder` and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in split(topology, config=config).items():
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    return written


def _site(topology: Topology, tier: str, *, config: str, client: str = "") -> str:
    process = process_defaults()
    process["user"] = "${REGIONFED_UID:?set it to the UID that owns ./identity (id -u)}:0"
    keys: KeyStore = SecretKeys(FEDERATION)
    parts = Parts(topology, process, once_defaults(process), keys, together=False)
    outside: tuple[str, ...] = (f"{tier}-fleet", "global-fleet")
    if client:
        services = client_tier(parts, tier, client, builds=False)
    elif tier == "global":
        services = global_tier(parts)
    else:
        services = region_tier(parts, tier, builds=False)
    declared = keys.declared()
    site = f"{tier}-{client}" if client else tier
    content: dict[str, Any] = {
        "name": f"regionfed-{site}",
        "x-process": process,
        "x-once": parts.once,
        "services": services,
        "networks": _networks(services, outside=outside),
        "volumes": _volumes(services),
        "configs": {"federation": {"file": config}, **declared["configs"]},
        "secrets": declared["secrets"],
    }
    header = SITE.format(site=site, file=f"{site}.yml", setup=f"{site}-identity")
    return to_yaml({k: v for k, v in content.items() if v}, header=header)


def _networks(services: dict[str, Service], *, outside: tuple[str, ...]) -> dict[str, Any]:
    """Every network that a service names; internal unless it leads to other hosts."""
    names = dict.fromkeys(
        name for service in services.values() for name in service.get("networks", ())
    )
    return {name: {} if name in outside else {"internal": True} for name in names}


def _volumes(services: dict[str, Service]) -> dict[str, Any]:
    """Every named volume that a service mounts."""
    mounts = (mount for service in services.values() for mount in service.get("volumes", ()))
    names = dict.fromkeys(mount.partition(":")[0] for mount in mounts)
    return {name: {} for name in names if not name.startswith((".", "/", "$"))}
