"""What a running federation tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Tier = Literal["server", "coordinator", "client"]


@dataclass(frozen=True, kw_only=True)
class ProgressEvent:
    """One step of one tier.

    `region` is None for the global server. `round` counts from 1 and is 0 before the first round;
    `rounds` is the number planned. `phase` is one word for the step ("start", "train",
    "aggregate", "personalise", "evaluate", "checkpoint", "skipped", "done", ...); `message` is a
    short sentence for a person, or empty.
    """

    tier: Tier
    region: str | None = None
    round: int = 0
    rounds: int = 0
    phase: str
    message: str = ""


ProgressSink = Callable[[ProgressEvent], None]


def ignore_progress(event: ProgressEvent) -> None:
    """Sink for callers that watch nothing."""
    del event
