"""The region's training phase: ask the cohort, average, release."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regionfed.errors import QuorumError, UpdateError
from regionfed.messages import (
    ClientUpdate,
    RegionOrder,
    RegionUpdate,
    TrainOrder,
    WireMessage,
    finite_vector,
)
from regionfed.method.conflict import variance_from_halves
from regionfed.method.exact import ExactMean
from regionfed_coordinator.region import Region, Traffic
from regionfed_coordinator.state import RegionState


@dataclass
class _Sums:
    """What is kept of the clients' answers: sums, never the answers themselves."""

    size: int
    buffer_size: int
    by_examples: bool
    total: ExactMean = field(init=False)
    first_half: ExactMean = field(init=False)
    buffers: ExactMean | None = field(init=False, default=None)
    examples: int = 0
    steps: int = 0
    loss: dict[str, float] = field(default_factory=dict)
    labels: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = ExactMean(self.size)
        self.first_half = ExactMean(self.size)
        if self.buffer_size:
            self.buffers = ExactMean(self.buffer_size)

    def add(self, answer: ClientUpdate, *, in_first_half: bool) -> None:
        """Add one client's answer; raises UpdateError and adds nothing if it is unusable."""
        update = finite_vector("update", answer.update, self.size)
        if answer.examples < 1:
            raise UpdateError("the client trained on no example")
        if self.buffers is not None:
            finite_vector("buffers", answer.buffers, self.buffer_size)
        weight = answer.examples if self.by_examples else 1
        self.total.add(update, weight)
        if in_first_half:
            self.first_half.add(update, weight)
        if self.buffers is not None and answer.buffers is not None:
            self.buffers.add(answer.buffers, weight)
        self.examples += answer.examples
        self.steps += answer.steps
        self.loss[answer.client] = answer.loss
        for name, count in answer.labels.items():
            self.labels[name] = self.labels.get(name, 0.0) + count


def train_region(
    region: Region, order: RegionOrder, state: RegionState
) -> tuple[RegionUpdate, RegionState]:
    """Run the training phase of one round (algorithm section 3, items 1 and 2).

    Returns the region's release and its new state. A region under quorum answers that it was
    skipped and why, and keeps its residual.
    """
    size = order.theta.size
    start = order.theta if state.theta_r is None else order.theta + state.theta_r
    sums = _Sums(
        size=size,
        buffer_size=0 if order.buffers is None else order.buffers.size,
        by_examples=region.config.coordinator.client_weights == "examples",
    )
    cohort = region.cohort(order)
    message = TrainOrder(
        run=order.run,
        region=region.name,
        round=order.round,
        digest=order.digest,
        layout=order.layout,
        start=start,
        buffers=order.buffers,
    )
    traffic = Traffic()

    def on_answer(name: str, answer: WireMessage) -> None:
        assert isinstance(answer, ClientUpdate)
        if answer.client != name or answer.round != order.round:
            raise UpdateError(f"an answer of {answer.client} for round {answer.round}")
        sums.add(answer, in_first_half=cohort.index(name) % 2 == 0)

    try:
        answers = region.exchange(
            order,
            dict.fromkeys(cohort, message),
            message_type="train",
            phase="train",
            traffic=traffic,
            on_answer=on_answer,
            reply=ClientUpdate,
        )
    except QuorumError as error:
        skipped = RegionUpdate(
            region=region.name,
            round=order.round,
            weight=0,
            skipped=str(error),
            report=traffic.report(),
        )
        return skipped, replace(state, round=order.round, theta=order.theta, update=None)
    update = sums.total.mean()
    weight = sums.examples if region.config.server.region_weights == "examples" else 1
    report: dict[str, Any] = {
        **traffic.report(),
        "clients": len(answers.answered),
        "examples": sums.examples,
        "loss": float(np.mean([sums.loss[name] for name in sorted(sums.loss)])),
        "seconds": answers.seconds,
        "labels": sums.labels,
        "variance": _variance(sums),
    }
    release = RegionUpdate(
        region=region.name,
        round=order.round,
        weight=weight,
        update=update,
        buffers=sums.buffers.mean() if sums.buffers is not None else None,
        report=report,
    )
    return release, replace(
        state,
        round=order.round,
        theta=order.theta,
        update=update,
        examples=sums.examples,
        labels=sums.labels,
    )


def _variance(sums: _Sums) -> float | None:
    """V_r from the two halves of the cohort (algorithm section 4), or None for a single client."""
    first = sums.first_half
    rest = sums.total.without(first)
    if first.terms == 0 or rest.terms == 0:
        return None
    return variance_from_halves(first.mean(), rest.mean(), n_a=first.effective, n_b=rest.effective)
