"""The desk's durable index: jobs, workers, the region's state and charges (SQLite).

A transaction is the commit point. Files are written before the transaction that refers to them
and removed after the one that lets them go, so a crash leaves at worst files that nobody refers
to; they are swept at the next start.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regionfed.bridge.api import JobState, ResultKind
from regionfed.bridge.spool import Spool
from regionfed.errors import StateError

SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    order_file TEXT, attempts INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,
    result_kind TEXT, error TEXT, result_file TEXT);
CREATE TABLE IF NOT EXISTS region (id INTEGER PRIMARY KEY CHECK (id = 1), state_file TEXT);
CREATE TABLE IF NOT EXISTS workers (
    number INTEGER PRIMARY KEY AUTOINCREMENT, worker_id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS charges (
    number INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL UNIQUE,
    answer TEXT NOT NULL);
"""
_KEPT_IDS = 4096
"""Ids of finished jobs that are remembered after their results are gone."""
_SHOWN_JOBS = 16
_KEPT_ROWS = 256
"""Workers and charges that are remembered; both only matter while a call may be repeated."""


@dataclass(frozen=True)
class StoredJob:
    """An unfinished job. `attempts` counts the workers that have taken it so far."""

    job_id: str
    kind: str
    order_file: str
    attempts: int


@dataclass(frozen=True)
class StoredResult:
    """A finished job."""

    job_id: str
    kind: ResultKind
    error: str
    result_file: str


class JobStore:
    """Durable jobs of one region, safe for threads of one process.

    Args:
        folder: where the index and the files are; made if it is not there.
        keep: finished jobs whose results are kept for replay.
        durable: flush to disk at each commit. Without it a result survives the death of the
            process, not that of the machine.
    """

    def __init__(self, folder: Path, *, keep: int = 4, durable: bool = True) -> None:
        self.folder = folder
        self.keep = keep
        self.spool = Spool(folder / "spool", durable=durable)
        self._lock = threading.RLock()
        self._path = folder / "bridge.db"
        try:
            self._db = sqlite3.connect(
                self._path, check_same_thread=False, isolation_level=None, timeout=10.0
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found not in (0, SCHEMA):
                raise StateError(
                    f"{self._path} has format {found}, this version reads {SCHEMA}; use the "
                    "version that wrote it or another state folder"
                )
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version={SCHEMA}")
        except sqlite3.Error as error:
            raise StateError(f"cannot open {self._path}: {error}") from error
        self.spool.sweep(self._referenced())

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            self._db.close()

    def add(self, job_id: str, kind: str, pieces: Iterable[bytes]) -> bool:
        """Store a new job; False, reading nothing of `pieces`, when it is known."""
        if self.state(job_id) is not None:
            return False
        name = self.spool.write(pieces)
        try:
            with self._transaction() as db:
                added = db.execute(
                    "INSERT OR IGNORE INTO jobs (job_id, kind, order_file) VALUES (?, ?, ?)",
                    (job_id, kind, name),
                ).rowcount
        except StateError:
            self.spool.remove(name)
            raise
        if not added:
            self.spool.remove(name)
        return bool(added)

    def state(self, job_id: str) -> JobState | None:
        """`queued`, `done`, or None for a job that is not known. Leases are not durable."""
        row = self._one("SELECT done FROM jobs WHERE job_id = ?", job_id)
        return None if row is None else ("done" if row[0] else "queued")

    def states(self) -> dict[str, JobState]:
        """The newest jobs, oldest first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT job_id, done FROM jobs ORDER BY number DESC LIMIT ?", (_SHOWN_JOBS,)
            ).fetchall()
        return {job_id: ("done" if done else "queued") for job_id, done in reversed(rows)}

    def oldest_unfinished(self) -> StoredJob | None:
        """The job that is worked on next."""
        row = self._one(
            "SELECT job_id, kind, order_file, attempts FROM jobs WHERE done = 0 "
            "ORDER BY number LIMIT 1"
        )
        return None if row is None else StoredJob(*row)

    def count_attempt(self, job_id: str) -> None:
        """Note that one more worker has taken the job."""
        with self._transaction() as db:
            db.execute("UPDATE jobs SET attempts = attempts + 1 WHERE job_id = ?", (job_id,))

    def result(self, job_id: str) -> StoredResult | None:
        """A finished job's result, or None. Raises StateError when it is no longer kept."""
        row = self._one(
            "SELECT job_id, result_kind, error, result_file FROM jobs "
            "WHERE job_id = ? AND done = 1",
            job_id,
        )
        if row is not None and row[3] is None:
            raise StateError(
                f"the result of job {job_id!r} is no longer kept (the newest {self.keep} are)"
            )
        return None if row is None else StoredResult(*row)

    def finish(self, result: StoredResult, *, state_file: str | None = None) -> bool:
        """Commit a result and, unless None, the region's new state; False when it had a result.

        The files are the spool's; this call takes them over. Raises StateError when the job is
        unknown or the index cannot be written; then the files are removed and nothing changed.
        """
        try:
            with self._transaction() as db:
                row = db.execute(
                    "SELECT done, order_file FROM jobs WHERE job_id = ?", (result.job_id,)
                ).fetchone()
                if row is None:
                    raise StateError(f"job {result.job_id!r} is not known to {self.folder}")
                if row[0]:
                    raise _AlreadyDone
                db.execute(
                    "UPDATE jobs SET done = 1, result_kind = ?, error = ?, result_file = ?, "
                    "order_file = NULL WHERE job_id = ?",
                    (result.kind, result.error, result.result_file, result.job_id),
                )
                released = [row[1]]
                if state_file is not None:
                    released.append(self._state_file(db))
                    db.execute("INSERT OR REPLACE INTO region VALUES (1, ?)", (state_file,))
                released += self._forget_old(db)
        except _AlreadyDone:
            self.spool.remove(result.result_file, state_file)
            return False
        except StateError:
            self.spool.remove(result.result_file, state_file)
            raise
        self.spool.remove(*released)
        return True

    def region_state(self) -> Iterator[bytes] | None:
        """The region's committed state, or None in a new region."""
        with self._lock:
            name = self._state_file(self._db)
            return None if name is None else self.spool.read(name)

    def enlist(self, worker_id: str) -> bool:
        """Make a worker that was never seen the current one; whether `worker_id` is current."""
        row = self._one("SELECT worker_id FROM workers ORDER BY number DESC LIMIT 1")
        if row is not None and row[0] == worker_id:
            return True
        with self._transaction() as db:
            added = db.execute(
                "INSERT OR IGNORE INTO workers (worker_id) VALUES (?)", (worker_id,)
            ).rowcount
            db.execute(
                "DELETE FROM workers WHERE number <= (SELECT MAX(number) FROM workers) - ?",
                (_KEPT_ROWS,),
            )
        return bool(added)

    def current_worker(self) -> str:
        """The worker that came last; empty before the first."""
        row = self._one("SELECT worker_id FROM workers ORDER BY number DESC LIMIT 1")
        return "" if row is None else str(row[0])

    def charge_answer(self, request_id: str) -> str | None:
        """The ledger's answer to a charge that was made under this request id."""
        row = self._one("SELECT answer FROM charges WHERE request_id = ?", request_id)
        return None if row is None else str(row[0])

    def charge_answers(self) -> list[str]:
        """The answers that are remembered, newest first."""
        with self._lock:
            rows = self._db.execute("SELECT answer FROM charges ORDER BY number DESC").fetchall()
        return [str(row[0]) for row in rows]

    def note_charge(self, request_id: str, answer: str) -> None:
        """Remember the answer, so that a repeated request is not a second charge."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO charges (request_id, answer) VALUES (?, ?)",
                (request_id, answer),
            )
            db.execute(
                "DELETE FROM charges WHERE number <= (SELECT MAX(number) FROM charges) - ?",
                (_KEPT_ROWS,),
            )

    def _forget_old(self, db: sqlite3.Connection) -> list[str]:
        """Let go of results beyond `keep`; return their files.

        The ids stay much longer, so that a job that was done is not done again.
        """
        old = db.execute(
            "SELECT number, result_file FROM jobs WHERE result_file IS NOT NULL "
            "ORDER BY number DESC LIMIT -1 OFFSET ?",
            (self.keep,),
        ).fetchall()
        db.executemany(
            "UPDATE jobs SET result_file = NULL WHERE number = ?", [(number,) for number, _ in old]
        )
        db.execute(
            "DELETE FROM jobs WHERE done = 1 AND number <= (SELECT MAX(number) FROM jobs) - ?",
            (_KEPT_IDS,),
        )
        return [name for _, name in old]

    @staticmethod
    def _state_file(db: sqlite3.Connection) -> str | None:
        row = db.execute("SELECT state_file FROM region").fetchone()
        return None if row is None else str(row[0])

    def _referenced(self) -> set[str]:
        rows = self._db.execute(
            "SELECT order_file FROM jobs UNION SELECT result_file FROM jobs "
            "UNION SELECT state_file FROM region"
        )
        return {name for (name,) in rows if name}

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        with self._lock:
            row: tuple[Any, ...] | None = self._db.execute(query, values).fetchone()
        return row

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise StateError(
                    f"cannot write {self._path}: {error}; nothing was changed. "
                    "Free space on this volume, then ask again"
                ) from error
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("ROLLBACK")


class _AlreadyDone(Exception):
    """The job has a result; the transaction is rolled back."""
