"""What `simulate` and `up` have in common: a folder, progress, the result and its report."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console

from regionfed.cli.failure import keep_logs_in
from regionfed.cli.options import read_config
from regionfed.cli.outcome import print_outcome
from regionfed.cli.watch import watching
from regionfed.errors import BudgetExhausted, RegionFedError, RunFailed

if TYPE_CHECKING:
    from regionfed.config.federation import FederationConfig
    from regionfed.run.folder import RunFolder
    from regionfed.run.progress import ProgressSink
    from regionfed.run.result import Result

    Engine = Callable[[FederationConfig, RunFolder, ProgressSink], Result]

logger = logging.getLogger(__name__)

_REASONS: dict[type[BaseException], str] = {KeyboardInterrupt: "interrupted"}

_TALKATIVE = ("httpx", "httpcore", "matplotlib", "fontTools")
"""Libraries that tell every request or font at INFO."""


def execute(
    engine: Engine,
    *,
    name: Literal["simulate", "up"],
    config_path: Path | None,
    overrides: list[str] | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Run one federation and tell its outcome.

    Raises RegionFedError when the run fails; its folder then says so in `result.json`.
    """
    from regionfed.run.folder import RunFolder

    config = read_config(config_path, overrides)
    folder = RunFolder.create(config, out=out, resume=resume)
    keep_logs_in(folder.logs)
    log_to(folder.logs / f"{name}.log")
    typer.echo(f"run folder {folder.path}", err=True)
    before, started = _written(folder.result_file), time.monotonic()
    try:
        with terminated_like_interrupted(), watching(config.run.rounds) as progress:
            result = engine(config, folder, progress)
    except (Exception, KeyboardInterrupt) as error:
        if _written(folder.result_file) == before:
            reason = str(error) or _REASONS.get(type(error), type(error).__name__)
            _write_failure(config, folder, name, reason=reason, seconds=time.monotonic() - started)
        raise
    folder.write_result(result)
    report = _report(folder)
    if as_json:
        typer.echo(result.model_dump_json(indent=2))
    else:
        print_outcome(result, Console(), folder=folder.path, report=report)
    if result.status == "failed":
        raise RunFailed(f"the run in {folder.path} failed: {result.reason}")
    if result.status == "stopped":
        raise BudgetExhausted(
            f"the run in {folder.path} ended after {result.rounds_done} of "
            f"{result.rounds_planned} rounds, model and report are there: {result.reason}"
        )


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does: everything stopped, the result marked as failed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _report(folder: RunFolder) -> Path | None:
    """The report's path; a report that cannot be made does not fail a run that succeeded."""
    from regionfed.report import write_report

    try:
        return write_report(folder.path)
    except RegionFedError as error:
        logger.warning("no report: %s", error)
        typer.echo(f"no report: {error}", err=True)
        return None


def _write_failure(
    config: FederationConfig,
    folder: RunFolder,
    name: Literal["simulate", "up"],
    *,
    reason: str,
    seconds: float,
) -> None:
    """Mark the run as failed where the engine could not do so itself."""
    from regionfed.run.result import ModelFacts, Topology
    from regionfed.run.summary import summarise

    result = summarise(
        folder.metrics().read(),
        config=config,
        topology=Topology(engine=name, regions={}),
        model=ModelFacts(kind=config.model.kind, parameters=0, bytes=0),
        seconds=seconds,
        status="failed",
        reason=reason,
    )
    folder.write_result(result)


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


class _RunLog(logging.FileHandler):
    """The log of the one run that a process is at."""


def log_to(path: Path) -> None:
    """Everything from INFO goes to the run's log; the console keeps to progress and errors."""
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each, _RunLog)]:
        root.removeHandler(earlier)
        earlier.close()
    handler = _RunLog(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
