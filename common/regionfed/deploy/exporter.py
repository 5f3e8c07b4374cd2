"""`python -m regionfed.deploy.exporter ROLE`: a tier's metrics over HTTP, beside its process.

Started by the role before it becomes its process; ends with the container. An error of one scrape
is that scrape's error only.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server

from regionfed.bridge.client import BridgeTls, GrpcBridge
from regionfed.deploy.metrics import (
    ContainerCollector,
    ProgressCollector,
    RegionCollector,
    RunCollector,
)
from regionfed.deploy.settings import Settings, required


def registry_of(role: str, settings: Settings, environ: Mapping[str, str]) -> CollectorRegistry:
    """The collectors of a role: its container, and what its tier knows."""
    registry = CollectorRegistry()
    registry.register(ContainerCollector())
    if role == "superexec" and settings.tier == "global":
        registry.register(RunCollector(Path(environ.get("REGIONFED_RUN_DIR") or "/runs/run")))
    elif role == "coordinator":
        address = required(settings.bridge, name="REGIONFED_BRIDGE", role=role)
        tls = None
        if settings.tls:
            folder = settings.identity
            tls = BridgeTls(folder / "ca.crt", folder / "bridge.crt", folder / "bridge.key")
        bridge = GrpcBridge(str(address), tls=tls, patience=0.0)
        registry.register(RegionCollector(bridge.status))
    elif role == "client":
        registry.register(ProgressCollector(settings.state / "client"))
    return registry


def main() -> None:
    """Serve until the container ends."""
    role = sys.argv[1]
    settings = Settings.from_environment(os.environ)
    address = required(settings.metrics, name="REGIONFED_METRICS", role=role)
    registry = registry_of(role, settings, os.environ)
    start_http_server(address.port, addr=address.host, registry=registry)
    threading.Event().wait()


if __name__ == "__main__":
    main()
