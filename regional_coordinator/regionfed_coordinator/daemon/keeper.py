"""Keeps exactly one regional run alive on the region's SuperLink."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from flwr.app import UserConfigValue

from regionfed.bridge.desk import Desk
from regionfed.errors import RegionFedError
from regionfed.flower.adapter import Control

logger = logging.getLogger(__name__)

LOOK_S = 2.0
_CALM_S = 60.0
"""A run that ended sooner than this after its start counts as a failed start."""


class Keeper:
    """Adopts the live regional run, or submits one, and submits another when it ends.

    Runs that end soon after their start are submitted again at growing intervals (up to a
    minute), so that a broken installation is visible in the status and does not burn the machine.
    More than one live run (left over from an earlier daemon) is reduced to the newest.

    Args:
        connect: opens the Control API of the region's SuperLink.
        bundle: the regional bundle.
        settings: overrides of the bundle's configuration.
        desk: where the run and the last problem are shown.
        look: seconds between looks.
    """

    def __init__(
        self,
        connect: Callable[[], Control],
        bundle: bytes,
        settings: Mapping[str, UserConfigValue],
        desk: Desk,
        *,
        look: float = LOOK_S,
    ) -> None:
        self._connect = connect
        self._bundle = bundle
        self._settings = dict(settings)
        self._desk = desk
        self._look = look
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._control: Control | None = None
        self._run: int | None = None
        self._age = 0.0
        self._failures = 0
        self._pause = 0.0

    def start(self) -> None:
        """Begin to keep the run."""
        self._thread.start()

    def stop(self) -> None:
        """Stop keeping; the run itself goes on and is adopted by the next keeper."""
        self._stop.set()
        self._thread.join(timeout=35.0)
        self._forget_connection()

    def _keep(self) -> None:
        while not self._stop.is_set():
            try:
                self._look_once()
            except RegionFedError as error:
                self._forget_connection()
                logger.warning("%s", error)
                self._show(str(error))
            self._stop.wait(self._look)
            self._age += self._look
            self._pause = max(0.0, self._pause - self._look)

    def _look_once(self) -> None:
        if self._control is None:
            self._control = self._connect()
        runs = self._control.runs()
        live = [run for run in runs if run.live]
        for extra in live[:-1]:
            logger.warning("stopping run %d: run %d is the region's", extra.run_id, live[-1].run_id)
            self._control.stop_run(extra.run_id)
        if live:
            if live[-1].run_id != self._run:
                logger.info("adopting run %d", live[-1].run_id)
                self._run, self._age = live[-1].run_id, 0.0
            if self._age >= _CALM_S:
                self._failures = 0
            self._show(str(live[-1]))
            return
        if self._run is not None:
            ended = next((run for run in runs if run.run_id == self._run), None)
            self._note_end(str(ended) if ended is not None else "unknown to the SuperLink")
            self._run = None
        if self._pause > 0:
            return
        self._run = self._control.start_run(self._bundle, self._settings)
        self._age = 0.0
        logger.info("submitted run %d", self._run)
        self._show("submitted")

    def _note_end(self, how: str) -> None:
        self._failures = self._failures + 1 if self._age < _CALM_S else 0
        self._pause = min(60.0, 2.0**self._failures) if self._failures > 1 else 0.0
        logger.warning("run %s ended: %s; next one in %.0f s", self._run, how, self._pause)
        self._show(f"ended: {how}; next one in {self._pause:.0f} s")

    def _show(self, status: str) -> None:
        self._desk.note_run("" if self._run is None else str(self._run), status)

    def _forget_connection(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
