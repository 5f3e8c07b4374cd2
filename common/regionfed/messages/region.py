"""Messages between the global server and a region's coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regionfed.messages.wire import Vector, WireMessage


@dataclass(frozen=True)
class RegionOrder(WireMessage):
    """What the server sends to every region, in both phases of a round.

    `theta` is theta_t in the training phase and theta_{t+1} in the evaluation phase. `mean_update`
    is g~ of the last step and is sent only when the server's optimiser is not SGD: with SGD the
    coordinator derives it from consecutive thetas (algorithm section 3, item 3). `shared` holds
    scalars that the server derived from released values: mu, mean size, global label counts.
    `control` is SCAFFOLD's c, (d,), in the training phase.
    """

    run: str
    round: int
    rounds: int
    digest: str
    layout: str
    theta: Vector
    final: bool = False
    buffers: Vector | None = None
    mean_update: Vector | None = None
    shared: dict[str, Any] = field(default_factory=dict)
    control: Vector | None = None


@dataclass(frozen=True)
class RegionUpdate(WireMessage):
    """A region's part of a round: g~_r and its own weight, or the reason why it was skipped.

    `sketch` is the noised mean of the clients' conflict sketches, (k,), where one was asked for.
    `report` carries scalars about the exchange: who answered, who was left out and why, bytes,
    seconds, and with DP on the accounting of the release. `control` is the mean change of its
    clients' c_i (SCAFFOLD), (d,), over the `clients` of the report.
    """

    region: str
    round: int
    weight: int
    skipped: str = ""
    update: Vector | None = None
    buffers: Vector | None = None
    sketch: Vector | None = None
    report: dict[str, Any] = field(default_factory=dict)
    control: Vector | None = None


@dataclass(frozen=True)
class RegionScores(WireMessage):
    """Additive counts per served level, and what the coordinator decided.

    `counts` maps a level (`global`, `regional`, `user`, `local`) to metric counts that add up over
    regions; `personal` holds conflict, alpha_r, strategy, rho and its verdict.
    """

    region: str
    round: int
    skipped: str = ""
    counts: dict[str, dict[str, float]] = field(default_factory=dict)
    personal: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal(WireMessage):
    """An answer that says why there is none; it never quotes data."""

    error: str
    reason: str
