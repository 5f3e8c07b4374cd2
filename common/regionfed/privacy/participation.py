"""The client's own count of its participations, which no coordinator can talk it out of.

Durable before it answers: a client that crashes after `admit` has used up that participation.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from regionfed.errors import PrivacyError, StateError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS participations (
    run TEXT NOT NULL, round INTEGER NOT NULL, attempt INTEGER NOT NULL,
    PRIMARY KEY (run, round, attempt)
)
"""
_BUSY_SECONDS = 20.0


class ParticipationRefused(PrivacyError):
    """This client's data has been used as often, or as recently, as it allows."""


class ParticipationCounter:
    """Counts the participations of one client in a file of its own (mode 0600)."""

    def __init__(self, path: Path, *, max_participations: int, min_separation: int = 1) -> None:
        """Open or create the counter.

        Raises PrivacyError when a limit is below 1 and StateError when the file is damaged.
        """
        if max_participations < 1 or min_separation < 1:
            raise PrivacyError(
                f"max_participations = {max_participations} and min_separation = {min_separation} "
                "must both be at least 1"
            )
        self.path = path
        self.max_participations = max_participations
        self.min_separation = min_separation
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            with closing(self._connect()) as connection:
                connection.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def admit(self, *, run: str, round: int, attempt: int = 0) -> None:
        """Record one participation, or refuse it; call it before the data is touched.

        A retry of a round with a new `attempt` costs one more participation, because this client
        cannot see whether the first one was released; the same attempt again is a replay.
        Raises ParticipationRefused, with the reason in words, or StateError.
        """
        try:
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN IMMEDIATE")
                past = connection.execute(
                    "SELECT round, attempt FROM participations WHERE run = ?", (run,)
                ).fetchall()
                self._check(past, run=run, round=round, attempt=attempt)
                connection.execute(
                    "INSERT INTO participations VALUES (?, ?, ?)", (run, round, attempt)
                )
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def rounds(self, run: str) -> list[int]:
        """The rounds of `run` that this client took part in, one entry per participation."""
        try:
            with closing(self._connect()) as connection:
                rows = connection.execute(
                    "SELECT round FROM participations WHERE run = ? ORDER BY round, attempt", (run,)
                ).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        return [int(row[0]) for row in rows]

    def _check(self, past: list[tuple[int, int]], *, run: str, round: int, attempt: int) -> None:
        if (round, attempt) in past:
            raise ParticipationRefused(
                f"round {round}, attempt {attempt} of run {run} was answered already: a replay"
            )
        if len(past) >= self.max_participations:
            raise ParticipationRefused(
                f"this client took part {len(past)} times in run {run}, its limit is "
                f"{self.max_participations} (counter: {self.path}); pick another client"
            )
        for other, _ in past:
            if other != round and abs(other - round) < self.min_separation:
                raise ParticipationRefused(
                    f"this client took part in round {other} of run {run}, and round {round} is "
                    f"fewer than {self.min_separation} rounds away (counter: {self.path})"
                )

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)

    def _damaged(self, error: sqlite3.Error) -> StateError:
        return StateError(
            f"the participation counter {self.path} cannot be used ({error}); this client takes "
            "no part until it is restored from a backup or its operator starts a new run"
        )
