"""Messages between a region's coordinator and its clients."""

from __future__ import annotations

from dataclasses import dataclass, field

from regionfed.messages.wire import Vector, WireMessage


@dataclass(frozen=True)
class TrainOrder(WireMessage):
    """Train from `start` (theta_t, or theta_t + theta_r where the strategy keeps a residual).

    `attempt` tells apart two askings of one round and `step` is the packed masking request; both
    are for clients whose answers are only summed, and so are `channel`, the vector that is asked
    for (regionfed.privacy.quantities), and `clipping_norm`, the C in force under adaptive
    clipping (0: the configured one). `control` is SCAFFOLD's c, (d,), and `control_round` the last
    round of which c counts this client's c_i (0: none yet).
    """

    run: str
    region: str
    round: int
    digest: str
    layout: str
    start: Vector
    buffers: Vector | None = None
    attempt: int = 0
    step: bytes = b""
    control: Vector | None = None
    control_round: int = 0
    channel: str = "train"
    clipping_norm: float = 0.0


@dataclass(frozen=True)
class ClientUpdate(WireMessage):
    """g_u = start minus end, the floating-point buffers after training, and sizes.

    `control` is the change of SCAFFOLD's c_i, (d,).
    """

    client: str
    round: int
    examples: int
    steps: int
    loss: float
    update: Vector | None = None
    buffers: Vector | None = None
    labels: dict[str, float] = field(default_factory=dict)
    control: Vector | None = None


@dataclass(frozen=True)
class EvaluateOrder(WireMessage):
    """Score models on the client's own rows, and do the work that personalisation needs.

    `levels` names the models to score: `global` is `base`, `regional` is `base + serve*direction`
    (or `base` itself where no direction is sent: it then is the regional model). `rhos` asks for
    validation losses at `base + rho*direction`. `work` asks for `local-training` from base or for
    the `lookahead-gradient` at base (K steps by configuration). `user` asks the device to train its
    own part on the regional model and to score it; `region_update` (g~_r) then lets it measure its own
    conflict. theta_u stays on the device. A `channel` asks for one summed vector instead
    (regionfed.privacy.quantities), with `attempt`, `step` and `clipping_norm` as in a TrainOrder.
    `keep` asks the device to store what it serves, with its own part where `user` says so, and to
    answer only that it has.
    """

    run: str
    region: str
    round: int
    digest: str
    layout: str
    base: Vector
    levels: tuple[str, ...]
    buffers: Vector | None = None
    direction: Vector | None = None
    serve: float = 0.0
    rhos: tuple[float, ...] = ()
    work: str = ""
    user: bool = False
    region_update: Vector | None = None
    channel: str = ""
    attempt: int = 0
    step: bytes = b""
    clipping_norm: float = 0.0
    keep: bool = False


@dataclass(frozen=True)
class Kept(WireMessage):
    """The device has stored what it serves. Nothing else is said, not even whether it helped."""

    client: str
    round: int


@dataclass(frozen=True)
class ClientScores(WireMessage):
    """Additive counts per level, validation losses per rho (sums over `loss_rows` rows), and work.

    `work` is g_u-like (start minus end, or the gradient); theta_u is never in any message.
    """

    client: str
    round: int
    counts: dict[str, dict[str, float]] = field(default_factory=dict)
    losses: tuple[float, ...] = ()
    loss_rows: int = 0
    examples: int = 0
    work: Vector | None = None
