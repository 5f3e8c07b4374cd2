"""Brings the output of the ServerApps, which Flower keeps to itself, into the run's log folder."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from regionfed.errors import RegionFedError
from regionfed.flower.adapter import Control


class ServerAppLogs:
    """Appends the output of each run that it is told of to `TIER-serverapp.log`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._followed: set[tuple[str, int]] = set()

    def path(self, tier: str) -> Path:
        """The log of one tier's ServerApp."""
        return self._folder / f"{tier}-serverapp.log"

    def follow(self, tier: str, address: str, run_id: int) -> None:
        """Follow a run on the SuperLink at `address` until it ends; a known run is left as it is."""
        if (tier, run_id) in self._followed:
            return
        self._followed.add((tier, run_id))
        threading.Thread(
            target=self._copy, args=(tier, address, run_id), name=f"{tier}-log", daemon=True
        ).start()

    def _copy(self, tier: str, address: str, run_id: int) -> None:
        control = Control(address)
        # A SuperLink that is killed ends the stream; the run's later output is then not copied.
        with (
            contextlib.suppress(RegionFedError),
            contextlib.closing(control),
            self.path(tier).open("a", encoding="utf-8") as file,
        ):
            for text in control.logs(run_id):
                file.write(text)
                file.flush()
