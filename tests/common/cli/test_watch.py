"""Progress as plain lines and as bars."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress

from regionfed.cli.watch import Bars, PlainLines, title
from regionfed.run.progress import ProgressEvent
from regionfed.units import amount, duration

EVENTS = [
    ProgressEvent(tier="server", rounds=2, phase="start"),
    ProgressEvent(tier="server", round=1, rounds=2, phase="train"),
    ProgressEvent(tier="coordinator", region="north", round=1, rounds=2, phase="train"),
    ProgressEvent(
        tier="coordinator", region="south", round=1, rounds=2, phase="skipped", message="quorum"
    ),
    ProgressEvent(tier="server", round=2, rounds=2, phase="done"),
]


def test_titles() -> None:
    assert [title(event) for event in EVENTS[1:4]] == ["server", "north", "south"]
    assert title(ProgressEvent(tier="client", region="north", phase="train")) == "north clients"


def test_plain_lines_keep_words_in_brackets() -> None:
    out = io.StringIO()
    sink = PlainLines(Console(file=out, width=20))
    sink(ProgressEvent(tier="server", round=1, rounds=3, phase="train", message="[red] " * 20))
    assert out.getvalue().startswith("round 1/3 server train: [red] [red]")
    assert len(out.getvalue().splitlines()) == 1


def test_bars_follow_the_rounds_and_keep_what_went_wrong() -> None:
    out = io.StringIO()
    progress = Progress(console=Console(file=out, force_terminal=True, width=100))
    with progress:
        sink = Bars(progress, rounds=2)
        for event in EVENTS:
            sink(event)
    done = {task.description.strip(): task.completed for task in progress.tasks}
    assert done == {"server": 2, "north": 0, "south": 0}
    assert "south skipped: quorum" in out.getvalue()


def test_units() -> None:
    assert [amount(size) for size in (0, 999, 1500, 240e6, 19.24e9)] == [
        "0 B",
        "999 B",
        "1.5 KB",
        "240 MB",
        "19.2 GB",
    ]
    assert [duration(seconds) for seconds in (0.84, 42.4, 185, 7800)] == [
        "0.8 s",
        "42 s",
        "3 min 5 s",
        "2 h 10 min",
    ]
