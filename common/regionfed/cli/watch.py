"""Shows the progress of a run: bars on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from regionfed.run.progress import ProgressEvent, ProgressSink

_WORTH_A_LINE = frozenset({"skipped", "left-out", "failed", "warning"})


@contextmanager
def watching(rounds: int) -> Iterator[ProgressSink]:
    """A sink for the events of one run of `rounds` rounds, shown while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainLines(console)
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("[dim]{task.fields[phase]}"),
        TimeElapsedColumn(),
        console=console,
    )
    with progress:
        yield Bars(progress, rounds=rounds)


def title(event: ProgressEvent) -> str:
    """Name of the tier, with its region where it has one."""
    if event.region is None:
        return event.tier
    return event.region if event.tier == "coordinator" else f"{event.region} {event.tier}s"


def line_of(event: ProgressEvent) -> str:
    """The event as a line of text."""
    where = f"round {event.round}/{event.rounds} " if event.rounds else ""
    message = f": {event.message}" if event.message else ""
    return f"{where}{title(event)} {event.phase}{message}"


class PlainLines:
    """One line per event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()

    def __call__(self, event: ProgressEvent) -> None:
        with self._lock:
            self._console.print(line_of(event), highlight=False, markup=False, soft_wrap=True)


class Bars:
    """One bar per tier and region; what went wrong stays above the bars."""

    def __init__(self, progress: Progress, *, rounds: int) -> None:
        self._progress = progress
        self._rounds = rounds
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __call__(self, event: ProgressEvent) -> None:
        name = title(event)
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(
                    f"{'  ' if event.region else ''}{name}", total=self._rounds, phase=""
                )
            finished = event.round if event.phase == "done" else max(event.round - 1, 0)
            self._progress.update(
                self._tasks[name],
                completed=finished,
                total=event.rounds or self._rounds,
                phase=event.phase if not event.message else f"{event.phase}: {event.message}",
            )
            if event.phase in _WORTH_A_LINE:
                self._progress.console.print(
                    f"round {event.round}: {name} {event.phase}: {event.message}",
                    markup=False,
                    highlight=False,
                    style="yellow",
                )
