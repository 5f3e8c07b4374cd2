"""The durable ledger: one SQLite file per region, readable by its owner alone."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from regionfed.errors import StateError
from regionfed.privacy.ledger import Ledger
from regionfed.privacy.ledger_records import Entry, LedgerTerms, parse_terms

# How long a process waits for another one that is writing to the same ledger.
_BUSY_SECONDS = 20.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    seq INTEGER PRIMARY KEY,
    record TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS never_change BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS never_delete BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


LEDGER_SUFFIX = ".ledger.sqlite"


def ledger_path(folder: Path, region: str) -> Path:
    """Where the ledger of `region` lives in a run's folder."""
    return folder / f"{region}{LEDGER_SUFFIX}"


class SqliteLedger(Ledger):
    """A ledger that survives `kill -9` and power loss: each entry is synced before it counts.

    Several processes may use one file; each charge holds it alone.
    """

    def __init__(self, path: Path, terms: LedgerTerms) -> None:
        """Open or create the ledger at `path`.

        Raises StateError when the file is damaged, was changed, or was opened with other terms.
        """
        super().__init__(terms)
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._connection = _connect(path)
        try:
            # EXTRA also syncs the folder, so that the file itself survives a power loss.
            self._connection.execute("PRAGMA synchronous = EXTRA")
            self._connection.executescript(_SCHEMA)
            self.open()
        except sqlite3.Error as error:
            self._connection.close()
            raise _damaged(path, error) from error
        except Exception:
            self._connection.close()
            raise

    @classmethod
    def existing(cls, path: Path) -> SqliteLedger:
        """Open a ledger that is there, under its own terms.

        Raises StateError when there is none or it is damaged.
        """
        return cls(path, read_terms(path))

    @property
    def name(self) -> str:
        return str(self.path)

    def close(self) -> None:
        """Close the file; the ledger must not be used afterwards."""
        self._connection.close()

    def _exclusive(self) -> AbstractContextManager[None]:
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                # What was caught up inside the transaction may be what was rolled back.
                self._forget()
                raise
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _damaged(self.path, error) from error

    def _read_after(self, seq: int) -> list[Entry]:
        rows = self._connection.execute(
            "SELECT seq, record, hash FROM entries WHERE seq > ? ORDER BY seq", (seq,)
        )
        return [Entry(*row) for row in rows]

    def _store(self, entry: Entry) -> None:
        self._connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?)", (entry.seq, entry.record, entry.hash)
        )


def read_terms(path: Path) -> LedgerTerms:
    """The terms in the first entry of the ledger at `path`; raises StateError if there is none."""
    if not path.is_file():
        raise StateError(f"there is no privacy ledger at {path}; give the path of an existing one")
    try:
        with closing(_connect(path)) as connection:
            row = connection.execute("SELECT record FROM entries WHERE seq = 1").fetchone()
    except sqlite3.Error as error:
        raise _damaged(path, error) from error
    if row is None:
        raise StateError(f"the privacy ledger at {path} is empty: no run has opened it yet")
    return parse_terms(json.loads(row[0]), str(path))


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)


def _damaged(path: Path, error: sqlite3.Error) -> StateError:
    if "locked" in str(error):
        return StateError(
            f"the privacy ledger {path} is held by another process for more than "
            f"{_BUSY_SECONDS:g} s; stop the other coordinator of this region"
        )
    return StateError(
        f"the privacy ledger {path} cannot be used ({error}); restore it from a backup, and "
        "without one treat the budget of this region as spent"
    )
