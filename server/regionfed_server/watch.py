"""Progress of a deployed run: events that the ServerApp appends and whoever watches reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ProgressSink

FILE = "progress.jsonl"


def progress_of(folder: RunFolder) -> ProgressSink:
    """A sink that appends every event as one line to the run's `progress.jsonl`."""
    path = folder.path / FILE

    def sink(event: ProgressEvent) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(event)) + "\n")

    return sink


def read_progress(folder: RunFolder, *, after: int = 0) -> Iterator[ProgressEvent]:
    """The events after the first `after` ones; a torn last line is left for the next look."""
    path = folder.path / FILE
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True)):
        if number >= after and line.endswith("\n"):
            yield ProgressEvent(**json.loads(line))
