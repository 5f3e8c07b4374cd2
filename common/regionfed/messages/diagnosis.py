"""What a region answers to a diagnosis: means over disjoint groups of its clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regionfed.messages.wire import Vector, WireMessage


@dataclass(frozen=True)
class GroupUpdates(WireMessage):
    """One diagnosis round of a region, or the reason why it has none.

    `groups` holds the mean updates of q disjoint groups of clients one after the other, each of
    length k: the model's d, or that of a sketch. `clients` is the number of clients behind each.
    `labels` is the region's label histogram and `report` carries scalars about the exchange.
    """

    region: str
    round: int
    skipped: str = ""
    groups: Vector | None = None
    clients: tuple[float, ...] = ()
    buffers: Vector | None = None
    examples: int = 0
    loss: float = 0.0
    labels: dict[str, float] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
