"""Un-noised scores in a simulation: outside the promise, labelled so, never part of a decision."""

from __future__ import annotations

from regionfed.errors import QuorumError, UpdateError
from regionfed.messages import (
    ClientScores,
    EvaluateOrder,
    RegionOrder,
    Vector,
    WireMessage,
)
from regionfed_coordinator.region import Region, Traffic


def measure(
    region: Region,
    order: RegionOrder,
    *,
    part: Vector | None,
    traffic: Traffic,
    user: bool = False,
    region_update: Vector | None = None,
) -> dict[str, dict[str, float]]:
    """Counts by level of theta and, with a part, of theta + part; empty under the quorum.

    With `user` each device also trains, keeps and scores its own part; `region_update` (d,) is the
    released g~_r by which it weighs it.

    Clients refuse this outside of a simulation (`regionfed.privacy.simulation`).
    """
    counts: dict[str, dict[str, float]] = {}
    message = EvaluateOrder(
        run=order.run,
        region=region.name,
        round=order.round,
        digest=order.digest,
        layout=order.layout,
        base=order.theta,
        buffers=order.buffers,
        levels=("global",) if part is None else ("global", "regional"),
        direction=part,
        serve=0.0 if part is None else 1.0,
        user=user,
        region_update=region_update,
    )

    def on_answer(name: str, answer: WireMessage) -> None:
        assert isinstance(answer, ClientScores)
        if answer.client != name or answer.round != order.round:
            raise UpdateError(f"an answer of {answer.client} for round {answer.round}")
        for level, found in answer.counts.items():
            own = counts.setdefault(level, {})
            for key, value in found.items():
                own[key] = own.get(key, 0.0) + value

    try:
        region.exchange(
            order,
            dict.fromkeys(sorted(region.clients), message),
            message_type="evaluate",
            phase="evaluate",
            traffic=traffic,
            on_answer=on_answer,
            reply=ClientScores,
        )
    except QuorumError:
        return {}
    return counts
