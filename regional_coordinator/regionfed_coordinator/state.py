"""What a region remembers between jobs; committed together with each job's result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regionfed.messages import Vector, WireMessage


@dataclass(frozen=True)
class RegionState(WireMessage):
    """The region's durable state. All vectors are flat float32 of length d.

    `theta` is theta_t of the last training phase and `update` the g~_r that the region released
    for it (None when it was skipped). `absorbed` is the last round whose global step has been
    taken in (see `absorb`), so that a phase that is asked twice changes nothing twice. `theta_r` is
    the residual that clients train from; `part` is the displacement that is served on top of
    theta, with `part_round` the round it belongs to. `personal` holds scalars: conflict, alpha_r,
    strategy and its reason, rho and its verdict. `router` is the memory of Dynamic. `noise` are
    the past vectors of correlated noise one after the other, newest first, and `noise_round` the
    last round that has one; they are as secret as un-noised sums. `control` are the rounds in which
    clients moved SCAFFOLD's c_i (see `control`). `clipping_norm` is the C of the
    next round under adaptive clipping (0: the configured one), and `census` what the clients are
    asked for once (module census), empty until then.
    """

    round: int = 0
    absorbed: int = 0
    examples: int = 0
    theta: Vector | None = None
    update: Vector | None = None
    theta_r: Vector | None = None
    part: Vector | None = None
    part_round: int = 0
    strategy: str = ""
    why: str = ""
    labels: dict[str, float] = field(default_factory=dict)
    personal: dict[str, Any] = field(default_factory=dict)
    router: dict[str, Any] = field(default_factory=dict)
    noise: Vector | None = None
    noise_round: int = 0
    control: dict[str, list[int]] = field(default_factory=dict)
    clipping_norm: float = 0.0
    census: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
