"""`metrics.jsonl`: an append-only log of what was measured, one JSON object per line."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from regionfed.errors import StateError
from regionfed.run.records import METRIC_RECORD, MetricRecord

logger = logging.getLogger(__name__)


class MetricsLog:
    """Writes and reads the log.

    A record is on the disk when `append` returns. A crash can tear only the last line; reading
    passes over it and the next `append` of a new process cuts it off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._mended = False

    def append(self, record: MetricRecord) -> None:
        """Add one record durably. Safe to call from several threads of one process."""
        line = record.model_dump_json().encode() + b"\n"
        with self._lock:
            if not self._mended:
                _cut_torn_line(self.path)
                self._mended = True
            with self.path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())

    def read(self) -> list[MetricRecord]:
        """All whole records in the order of writing; an absent file holds none.

        Raises StateError naming the line when one before the last is not a record.
        """
        return list(self._records())

    def _records(self) -> Iterator[MetricRecord]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    logger.warning("%s line %d is torn and is left out", self.path, number)
                    return
                try:
                    yield METRIC_RECORD.validate_json(line)
                except ValidationError as error:
                    first = error.errors(include_url=False)[0]
                    raise StateError(
                        f"{self.path} line {number} is not a metrics record "
                        f"({first['msg']}); remove that line or restore the file"
                    ) from None


def _cut_torn_line(path: Path) -> None:
    """Remove the bytes after the last line end, which a crash in mid-write left behind."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            logger.warning("%s: a torn last line of %d bytes is cut", path, len(content) - whole)
            file.truncate(whole)
