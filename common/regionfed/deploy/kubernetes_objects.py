"""The kinds of Kubernetes objects that a site consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]
UID = 10001
HEALTH_COMMAND = [
    "python",
    "-S",
    "/opt/regionfed/lib/python3.11/site-packages/regionfed/deploy/health.py",
]
_COPY_KEYS = "cp /secret/* /identity/ && chmod 600 /identity/*"
"""Secrets are mounted for a group; the processes insist on keys that one user alone can read."""

_HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its role, image, environment, ports by name, and what it may use."""

    role: str
    image: str
    environment: dict[str, str]
    memory: str
    ports: dict[str, int] = field(default_factory=dict)
    runs: bool = False


def stateful_set(namespace: str, process: Process, *, storage: str) -> Manifest:
    """One replica that keeps its volume: every process has state or an identity of its own."""
    pod = _pod(process, lasting=True)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(namespace, process.role),
        "spec": {
            "replicas": 1,
            "serviceName": process.role,
            "selector": {"matchLabels": {"app": process.role}},
            "template": {"metadata": {"labels": _labels(process.role)}, "spec": pod},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "state"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": storage}},
                    },
                }
            ],
        },
    }


def job(namespace: str, process: Process) -> Manifest:
    """A process that ends; repeated until it succeeds, at most ten times."""
    pod = _pod(process, lasting=False) | {"restartPolicy": "OnFailure"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(namespace, process.role),
        "spec": {
            "backoffLimit": 10,
            "template": {"metadata": {"labels": _labels(process.role)}, "spec": pod},
        },
    }


def service(namespace: str, name: str, app: str, ports: dict[str, int]) -> Manifest:
    """A name for the ports of one process."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(namespace, name),
        "spec": {
            "selector": {"app": app},
            "ports": [
                {"name": key, "port": port, "targetPort": port} for key, port in ports.items()
            ],
        },
    }


def claim(namespace: str, name: str, storage: str) -> Manifest:
    """A volume that two processes share."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(namespace, name),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": storage}},
        },
    }


def deny_ingress(namespace: str) -> Manifest:
    """Nothing may connect to the site's pods unless another policy says so."""
    return _policy(namespace, "deny-ingress", {}, [])


def within_tier(namespace: str) -> Manifest:
    """The tier's own pods may connect to each other."""
    return _policy(namespace, "within-tier", {}, [{"from": [{"podSelector": {}}]}])


def fleet_policy(namespace: str, port: int) -> Manifest:
    """Nodes anywhere may connect to the SuperLink's Fleet port, and to nothing else."""
    rule = {"ports": [{"protocol": "TCP", "port": port}]}
    return _policy(namespace, "fleet", {"matchLabels": {"app": "superlink"}}, [rule])


def _policy(namespace: str, name: str, pods: Manifest, ingress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(namespace, name),
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _metadata(namespace: str, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": namespace,
        "labels": {"app.kubernetes.io/part-of": "regionfed"},
    }


def _labels(role: str) -> dict[str, str]:
    return {"app": role, "app.kubernetes.io/part-of": "regionfed"}


def _pod(process: Process, *, lasting: bool) -> Manifest:
    mounts: list[Manifest] = [
        {"name": "identity", "mountPath": "/identity"},
        {"name": "public", "mountPath": "/public", "readOnly": True},
        {"name": "config", "mountPath": "/config", "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "state", "mountPath": "/state"},
    ]
    volumes: list[Manifest] = [
        {"name": "secret", "secret": {"secretName": "identity", "defaultMode": 0o440}},
        {"name": "identity", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "public", "configMap": {"name": "public"}},
        {"name": "config", "configMap": {"name": "federation"}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    if not lasting:
        volumes.append({"name": "state", "emptyDir": {}})
    if process.runs:
        mounts.append({"name": "runs", "mountPath": "/runs"})
        volumes.append({"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}})
    container: Manifest = {
        "name": process.role,
        "image": process.image,
        "args": [process.role],
        "env": [{"name": name, "value": value} for name, value in process.environment.items()],
        "resources": {
            "requests": {"cpu": "250m", "memory": "256Mi"},
            "limits": {"memory": process.memory},
        },
        "securityContext": _HARDENED,
        "volumeMounts": mounts,
    }
    if process.ports:
        container["ports"] = [
            {"name": name, "containerPort": port} for name, port in process.ports.items()
        ]
    if lasting:
        container |= {
            "startupProbe": _probe(period=5, failures=120),
            "livenessProbe": _probe(period=20, failures=3),
            "readinessProbe": _probe(period=10, failures=1),
        }
    copy = {
        "name": "keys",
        "image": process.image,
        "command": ["sh", "-c", _COPY_KEYS],
        "securityContext": _HARDENED,
        "volumeMounts": [
            {"name": "secret", "mountPath": "/secret", "readOnly": True},
            {"name": "identity", "mountPath": "/identity"},
        ],
    }
    return {
        "shareProcessNamespace": True,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [copy],
        "containers": [container],
        "volumes": volumes,
    }


def _probe(*, period: int, failures: int) -> Manifest:
    return {
        "exec": {"command": HEALTH_COMMAND},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
