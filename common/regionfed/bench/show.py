"""What a benchmark shows on the terminal: progress with the time left, then its tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from regionfed.bench.cell import CellResult, Job
from regionfed.bench.claims import answers, label
from regionfed.bench.recipe import Recipe
from regionfed.bench.runner import Watcher
from regionfed.bench.tables import Results
from regionfed.units import duration

_QUIET_SECONDS = 30.0


@contextmanager
def watching() -> Iterator[Watcher]:
    """A watcher: a bar on a terminal, plain lines elsewhere. All on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    progress = Progress(
        TextColumn("cells"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[left]} {task.fields[running]}"),
        console=console,
    )
    with progress:
        yield _Bar(progress)


def _about(left: float | None) -> str:
    return "" if left is None else f"about {duration(left)} left"


class _Lines:
    """One line per finished cell, and the time left now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = time.monotonic()

    def progress(
        self, done: int, total: int, *, running: Sequence[str], left: float | None
    ) -> None:
        """At most one line in a while."""
        if time.monotonic() - self._last < _QUIET_SECONDS:
            return
        self._last = time.monotonic()
        self._print(f"{done}/{total} cells {_about(left)}; running: {', '.join(running)}")

    def finished(self, job: Job, result: CellResult) -> None:
        """The cell's headline."""
        self._print(_headline(job, result))

    def failed(self, job: Job, reason: str) -> None:
        """Why."""
        self._print(f"{job.setting} {job.system} seed {job.seed} FAILED: {reason}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Bar:
    """A bar; failures stay above it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("cells", total=None, left="", running="")

    def progress(
        self, done: int, total: int, *, running: Sequence[str], left: float | None
    ) -> None:
        """Move the bar."""
        self._progress.update(
            self._task,
            completed=done,
            total=total,
            left=_about(left),
            running=", ".join(running),
        )

    def finished(self, job: Job, result: CellResult) -> None:
        """The cell's headline above the bar."""
        self._progress.console.print(_headline(job, result), markup=False, highlight=False)

    def failed(self, job: Job, reason: str) -> None:
        """Why, above the bar."""
        self._progress.console.print(
            f"{job.setting} {job.system} seed {job.seed} failed: {reason}",
            markup=False,
            highlight=False,
            style="red",
        )


def _headline(job: Job, result: CellResult) -> str:
    return (
        f"{job.setting} {job.system} seed {job.seed}: overall "
        f"{100 * result.scores.overall:.1f}, worst region "
        f"{100 * result.scores.worst_region.score:.1f}, {duration(result.seconds)}"
    )


def print_tables(recipe: Recipe, results: Results, console: Console) -> None:
    """Scores of every setting and the answers computed from them."""
    for setting in results.settings:
        table = Table(title=f"{recipe.bench.name}, {setting} (percent, ours)", title_justify="left")
        table.add_column("system")
        for name in ("overall", "sd", "worst region", "spread", "seeds"):
            table.add_column(name, justify="right")
        for name in results.systems(setting):
            overall = results.summary(setting, name)
            table.add_row(
                label(name),
                f"{100 * overall.mean:.1f}",
                f"{100 * overall.sd:.1f}",
                f"{100 * results.summary(setting, name, 'worst').mean:.1f}",
                f"{100 * results.summary(setting, name, 'spread').mean:.1f}",
                str(overall.count),
            )
        console.print(table)
        for answer in answers(results, setting=setting, rivals=recipe.bench.rivals):
            console.print(f"{answer.question} {answer.verdict}. {answer.text}", highlight=False)
