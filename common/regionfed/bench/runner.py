"""Runs the cells of a benchmark in worker processes; what is finished is not run again."""

from __future__ import annotations

import fcntl
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from regionfed.bench.cell import CellResult, Job, read_cell, run_cell, write_cell
from regionfed.errors import RegionFedError, RunFailed, StateError

logger = logging.getLogger(__name__)

STALL_SECONDS = 6 * 3600.0
"""Longest time in which no cell finishes before the benchmark is given up."""

_TICK = 1.0
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Watcher(Protocol):
    """Is told what happens; `left` is the estimate of the remaining seconds, None before any."""

    def progress(
        self, done: int, total: int, *, running: Sequence[str], left: float | None
    ) -> None:
        """Something moved, or a second passed."""

    def finished(self, job: Job, result: CellResult) -> None:
        """A cell is done and written."""

    def failed(self, job: Job, reason: str) -> None:
        """A cell could not be computed."""


@dataclass
class Outcome:
    """Finished cells in the order of the jobs, and why others failed, by key."""

    results: list[CellResult] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def run_jobs(jobs: Sequence[Job], folder: Path, *, workers: int, watcher: Watcher) -> Outcome:
    """Compute what is missing and return everything.

    A cell that fails does not stop the others. Raises `StateError` when another benchmark writes
    to the folder or a finished cell is damaged, `RunFailed` when a worker process dies or nothing
    finishes for `STALL_SECONDS`.
    """
    with _only_one(folder):
        known = {job.key: read_cell(folder, job) for job in jobs}
        missing = [job for job in jobs if known[job.key] is None]
        outcome = Outcome()
        if missing:
            _run_missing(missing, known, folder, workers=workers, watcher=watcher, outcome=outcome)
        outcome.results = [found for job in jobs if (found := known[job.key]) is not None]
        return outcome


def _run_missing(
    missing: Sequence[Job],
    known: dict[str, CellResult | None],
    folder: Path,
    *,
    workers: int,
    watcher: Watcher,
    outcome: Outcome,
) -> None:
    clock = _Clock(total=len(known), workers=workers)
    for result in known.values():
        if result is not None:
            clock.seen(result.system, result.seconds)
    queue = list(reversed(missing))
    running: dict[Future[tuple[CellResult, float]], Job] = {}
    last = time.monotonic()
    # Spawned, not forked: torch's thread pools do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with _single_threaded():
        pool = ProcessPoolExecutor(
            max_workers=workers, mp_context=context, initializer=end_with_parent
        )
        try:
            while queue or running:
                while queue and len(running) < workers:
                    job = queue.pop()
                    running[pool.submit(_work, job)] = job
                done, _ = wait(running, timeout=_TICK, return_when=FIRST_COMPLETED)
                for future in done:
                    last = time.monotonic()
                    job = running.pop(future)
                    _take(job, future, known, folder, clock=clock, watcher=watcher, outcome=outcome)
                finished = sum(result is not None for result in known.values())
                watcher.progress(
                    finished + len(outcome.failures),
                    len(known),
                    running=[f"{job.setting} {job.system} {job.seed}" for job in running.values()],
                    left=clock.left([*queue, *running.values()]),
                )
                if running and time.monotonic() - last > STALL_SECONDS:
                    names = ", ".join(job.key for job in running.values())
                    raise RunFailed(
                        f"no cell finished for {STALL_SECONDS / 3600:g} hours; running: {names}. "
                        "Use a smaller size, or fewer --jobs if memory ran out"
                    )
        finally:
            if running:
                # Ours alone: the workers of this pool; they hold nothing that must be saved.
                for process in multiprocessing.active_children():
                    process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _take(
    job: Job,
    future: Future[tuple[CellResult, float]],
    known: dict[str, CellResult | None],
    folder: Path,
    *,
    clock: _Clock,
    watcher: Watcher,
    outcome: Outcome,
) -> None:
    try:
        result, seconds = future.result()
    except BrokenProcessPool:
        raise RunFailed(
            f"a worker process died while {job.key} ran, most likely for lack of memory; run the "
            "same command with fewer --jobs, finished cells are kept"
        ) from None
    except RegionFedError as error:
        outcome.failures[job.key] = str(error)
        watcher.failed(job, str(error))
        return
    write_cell(folder, job, result)
    known[job.key] = result
    clock.seen(job.system, seconds)
    watcher.finished(job, result)


def end_with_parent() -> None:
    """End this worker process when the one that started it is gone, however that died.

    The pool's own workers would wait for work for ever, since each holds the queue open for the
    others. A cell that is lost is run again; nothing else is at stake.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _work(job: Job) -> tuple[CellResult, float]:
    started = time.monotonic()
    result = run_cell(job)
    return result, time.monotonic() - started


@dataclass
class _Clock:
    """How long cells take, by system."""

    total: int
    workers: int
    taken: dict[str, list[float]] = field(default_factory=dict)

    def seen(self, system: str, seconds: float) -> None:
        self.taken.setdefault(system, []).append(seconds)

    def left(self, jobs: Sequence[Job]) -> float | None:
        every = [value for values in self.taken.values() for value in values]
        if not every:
            return None
        usual = sum(every) / len(every)
        means = {name: sum(values) / len(values) for name, values in self.taken.items()}
        return sum(means.get(job.system, usual) for job in jobs) / self.workers


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Workers inherit one thread each: as many workers as cores is then the right number."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"another benchmark is writing to {folder}; wait for it, or give another --out"
            ) from None
        yield
