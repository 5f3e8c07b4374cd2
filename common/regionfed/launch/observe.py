"""What a running local federation tells: the server's events and each region's last report."""

from __future__ import annotations

import time
from collections.abc import Mapping

from regionfed.bridge.client import GrpcBridge
from regionfed.errors import RegionFedError
from regionfed.launch.logs import ServerAppLogs
from regionfed.launch.plan import FederationPlan
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ProgressSink

_LOOK_S = 1.0


class Observer:
    """Collects what is new since the last look.

    Args:
        folder: the run's folder, in which the global ServerApp notes its events.
        plan: where the tiers are.
        rounds: rounds that are planned.
    """

    def __init__(self, folder: RunFolder, plan: FederationPlan, *, rounds: int) -> None:
        from regionfed_server.watch import read_progress

        self.since = time.time()
        self._read = read_progress
        self._folder = folder
        self._rounds = rounds
        # A status that takes long is left out: watching must not hold up the run.
        self._bridges = {
            region: GrpcBridge(address, patience=0.0) for region, address in plan.daemons.items()
        }
        self._controls = plan.controls
        self.logs = ServerAppLogs(folder.logs)
        self._seen = sum(1 for _ in read_progress(folder))
        self._last: dict[str, ProgressEvent] = {}
        self._next_look = 0.0

    def tell(self, progress: ProgressSink) -> None:
        """Hand on new events; regions are asked once a second."""
        for event in self._read(self._folder, after=self._seen):
            self._seen += 1
            progress(event)
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_S
        for region, bridge in self._bridges.items():
            try:
                status = bridge.status()
            except RegionFedError:
                continue
            if status.run:
                self.logs.follow(region, self._controls[region], int(status.run))
            report = status.progress
            event = self._event(region, report)
            if report and self._last.get(region) != event:
                self._last[region] = event
                progress(event)

    def close(self) -> None:
        """Let go of the daemons."""
        for bridge in self._bridges.values():
            bridge.close()

    def _event(self, region: str, report: Mapping[str, object]) -> ProgressEvent:
        number = report.get("round", 0)
        return ProgressEvent(
            tier="coordinator",
            region=region,
            round=number if isinstance(number, int) else 0,
            rounds=self._rounds,
            phase=str(report.get("phase", "")),
            message=str(report.get("error", "")),
        )
