"""The role that runs the federation: submit or adopt the run, show progress, end with its result.

It holds no state of its own. Killed and started again it adopts the live run; after the whole
federation was stopped it submits the run anew into the same folder, where the ServerApp goes on
from its checkpoint; once the run has its result it prints that and ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from regionfed.cli.outcome import outcome_line, print_outcome
from regionfed.cli.watch import PlainLines, line_of
from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.deploy.settings import Settings, required
from regionfed.errors import ConfigError, RegionFedError, RunFailed, TransportError
from regionfed.flower.adapter import Control, RunState
from regionfed.flower.bundle import GLOBAL, bundle
from regionfed.logs import wants_json
from regionfed.report import write_report
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ProgressSink
from regionfed.run.result import Result
from regionfed_server.watch import read_progress

logger = logging.getLogger("regionfed.run")

LOOK_SECONDS = 1.0
AWAY_SECONDS = 600.0
"""How long the SuperLink may be away before the run counts as failed."""
FRUITLESS_ATTEMPTS = 5
"""Submissions in a row that bring no new checkpoint, after which the run counts as failed."""


def execute_run(settings: Settings, environ: Mapping[str, str]) -> None:
    """Bring the run to its result. Raises `RunFailed` if it ends without one, or with a failure."""
    runtime = required(settings.runtime, name="REGIONFED_RUNTIME", role="run")
    if settings.config is None:
        raise ConfigError("REGIONFED_CONFIG is not set; set it to the path of the federation file")
    config = load_config(settings.config)
    folder = open_run(config, Path(environ.get("REGIONFED_RUN_DIR") or f"/runs/{config.run.name}"))
    result = finished(folder, config)
    if result is None:
        control = Control(str(runtime), ca=settings.identity / "ca.crt" if settings.tls else None)
        try:
            shown = (
                log_event if wants_json(environ) else PlainLines(Console(stderr=True, width=120))
            )
            result = DeployedRun(control, folder).wait(shown)
        finally:
            control.close()
    else:
        logger.info("the run in %s has its result already", folder.path)
    tell(result, folder, logged=wants_json(environ))


def log_event(event: ProgressEvent) -> None:
    """Show an event as a record of the log."""
    logger.info("%s", line_of(event))


def open_run(config: FederationConfig, path: Path) -> RunFolder:
    """The run's folder, made at the first start and resumed at every later one.

    Raises `StateError` if the folder holds a run with another configuration.
    """
    return RunFolder.create(config, out=path, resume=RunFolder(path).config_file.is_file())


def finished(folder: RunFolder, config: FederationConfig) -> Result | None:
    """The result, if the run has come to its end and no rounds were added since."""
    if not folder.result_file.exists():
        return None
    result = folder.read_result()
    done = result.status == "ok" and result.rounds_done >= config.run.rounds
    return result if done else None


def tell(result: Result, folder: RunFolder, *, logged: bool = False) -> None:
    """Print the result, or log it, and write its report. Raises `RunFailed` if the run failed."""
    report = None
    try:
        report = write_report(folder.path)
    except RegionFedError as error:
        logger.warning("no report: %s", error)
    if logged:
        logger.info("%s", outcome_line(result, folder=folder.path))
    else:
        print_outcome(result, Console(width=120), folder=folder.path, report=report)
    if result.status == "failed":
        raise RunFailed(f"the run in {folder.path} failed: {result.reason}")


@dataclass
class DeployedRun:
    """The one global run of a federation whose processes somebody else keeps alive."""

    control: Control
    folder: RunFolder
    look: float = LOOK_SECONDS
    away: float = AWAY_SECONDS

    def __post_init__(self) -> None:
        self.since = time.time()
        self.seen = sum(1 for _ in read_progress(self.folder))
        self.fruitless = 0
        self.checkpoint = self._newest_checkpoint()

    def wait(self, progress: ProgressSink) -> Result:
        """Submit or adopt the run and wait for its result.

        Raises `RunFailed` if the SuperLink stays away, or if several submissions in a row end
        without a result and without a new checkpoint.
        """
        lost_at: float | None = None
        while True:
            self._tell(progress)
            try:
                result = self._step()
                lost_at = None
            except TransportError as error:
                now = time.monotonic()
                lost_at = now if lost_at is None else lost_at
                if now - lost_at > self.away:
                    raise RunFailed(f"the run cannot be followed any more: {error}") from error
                logger.warning("%s; asking again", error)
                time.sleep(5 * self.look)
                continue
            if result is not None:
                self._tell(progress)
                return result
            time.sleep(self.look)

    def _step(self) -> Result | None:
        """One look at the run: nothing while it lives, its result, or another submission."""
        runs = self.control.runs()
        if any(run.live for run in runs):
            return None
        result = self._result()
        if result is not None:
            return result
        self._submit(runs)
        return None

    def _submit(self, runs: list[RunState]) -> None:
        newest = self._newest_checkpoint()
        self.fruitless = 1 if newest != self.checkpoint else self.fruitless + 1
        self.checkpoint = newest
        if self.fruitless > FRUITLESS_ATTEMPTS:
            last = f"; the last one: {runs[-1]}" if runs else ""
            raise RunFailed(
                f"{FRUITLESS_ATTEMPTS} submissions ended without a result{last}; see the log of "
                "global-superexec"
            )
        run = self.control.start_run(
            bundle(GLOBAL), {"output": str(self.folder.path), "engine": "deployed"}
        )
        logger.info("submitted run %d (attempt %d)", run, self.fruitless)

    def _result(self) -> Result | None:
        path = self.folder.result_file
        if not path.exists() or path.stat().st_mtime < self.since:
            return None
        return self.folder.read_result()

    def _newest_checkpoint(self) -> str:
        names = (entry.name for entry in self.folder.checkpoint_folder.glob("*"))
        return max(names, default="")

    def _tell(self, progress: ProgressSink) -> None:
        for event in read_progress(self.folder, after=self.seen):
            self.seen += 1
            progress(event)
