"""The region's training phase: ask the cohort, average, release."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regionfed.errors import BudgetExhausted, PrivacyError, QuorumError, UpdateError
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
from regionfed.privacy.example_ledger import SPENT
from regionfed.privacy.modes import Mode
from regionfed.privacy.quantities import Channel
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg.encoding import decode
from regionfed_coordinator.collect import collect
from regionfed_coordinator.control import control_orders, counted_rounds, with_answers
from regionfed_coordinator.private_train import train_privately
from regionfed_coordinator.region import Region, Traffic
from regionfed_coordinator.release import release_mean
from regionfed_coordinator.state import RegionState

BUDGET = "budget"
"""How the reason of a region begins whose privacy budget cannot pay for the round."""


@dataclass
class _Sums:
    """What is kept of the clients' answers: sums, never the answers themselves."""

    size: int
    buffer_size: int
    by_examples: bool
    told: bool = True
    """Whether clients tell how many rows they have."""
    control: ExactMean | None = None
    """Changes of the clients' control variates (SCAFFOLD), all of weight 1."""
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
        if answer.examples < 1 and self.told:
            raise UpdateError("the client trained on no example")
        if self.buffers is not None:
            finite_vector("buffers", answer.buffers, self.buffer_size)
        if self.control is not None:
            finite_vector("control", answer.control, self.size)
        weight = answer.examples if self.by_examples else 1
        self.total.add(update, weight)
        if in_first_half:
            self.first_half.add(update, weight)
        if self.buffers is not None and answer.buffers is not None:
            self.buffers.add(answer.buffers, weight)
        if self.control is not None and answer.control is not None:
            self.control.add(answer.control)
        self.examples += answer.examples
        self.steps += answer.steps
        self.loss[answer.client] = answer.loss
        for name, count in answer.labels.items():
            self.labels[name] = self.labels.get(name, 0.0) + count


def train_region(
    region: Region, order: RegionOrder, state: RegionState
) -> tuple[RegionUpdate, RegionState]:
    """Run the training phase of one round (algorithm section 3, items 1 and 2).

    Returns the region's release and its new state. A region under quorum, or whose masked sum did
    not open, answers that it was skipped and why, and keeps its residual. One whose budget cannot
    pay the release says so and stays as it was.
    """
    start = order.theta if state.theta_r is None else order.theta + state.theta_r
    terms = region.terms(order)
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
    how = train_privately if terms.mode.per_client else _sum if terms.sums_only else _mean
    try:
        return how(region, order, state, terms, message, traffic)
    except BudgetExhausted as error:
        skipped = _skipped(region, order, traffic, f"{BUDGET}: {error}")
        return skipped, state
    except (QuorumError, PrivacyError) as error:
        if _spent(region, order, terms, traffic):
            return _skipped(region, order, traffic, f"{BUDGET}: {error}"), state
        skipped = _skipped(region, order, traffic, str(error))
        return skipped, replace(state, round=order.round, theta=order.theta, update=None)


def _spent(region: Region, order: RegionOrder, terms: RegionTerms, traffic: Traffic) -> bool:
    """Whether too few clients can answer at all, because the others' own budgets are spent."""
    spent = sum(SPENT in reason for reason in traffic.left_out.values())
    needed = max(region.config.coordinator.quorum, terms.min_survivors if terms.masked else 1)
    return spent > 0 and len(region.cohort(order)) - spent < needed


def _skipped(region: Region, order: RegionOrder, traffic: Traffic, reason: str) -> RegionUpdate:
    return RegionUpdate(
        region=region.name, round=order.round, weight=0, skipped=reason, report=traffic.report()
    )


def _sum(
    region: Region,
    order: RegionOrder,
    state: RegionState,
    terms: RegionTerms,
    message: TrainOrder,
    traffic: Traffic,
) -> tuple[RegionUpdate, RegionState]:
    """Mode off under masks: clients send integers to be summed, the release is their plain mean."""
    collected = collect(
        region,
        order,
        terms,
        channel=Channel.TRAIN,
        message=message,
        cohort=region.cohort(order),
        traffic=traffic,
    )
    means = {
        block.name: decode(collected.sums[block.name], block, dtype=np.float64)
        / len(collected.clients)
        for block in terms.blocks(Channel.TRAIN)
    }
    update = means[Channel.TRAIN.value].astype(np.float32)
    answer = RegionUpdate(
        region=region.name,
        round=order.round,
        weight=1,
        update=update,
        buffers=means["buffers"].astype(np.float32) if "buffers" in means else None,
        report={
            **traffic.report(),
            "clients": len(collected.clients),
            "seconds": collected.seconds,
        },
    )
    return answer, replace(
        state, round=order.round, theta=order.theta, update=update, examples=0, labels={}
    )


def _mean(
    region: Region,
    order: RegionOrder,
    state: RegionState,
    terms: RegionTerms,
    message: TrainOrder,
    traffic: Traffic,
) -> tuple[RegionUpdate, RegionState]:
    """Clients send their updates: the release is their exact mean, noised in mode paper."""
    sums = _Sums(
        size=order.theta.size,
        buffer_size=0 if order.buffers is None else order.buffers.size,
        by_examples=region.config.coordinator.client_weights == "examples",
        told=not region.config.privacy.example_level,
        control=None if order.control is None else ExactMean(order.theta.size),
    )
    cohort = region.cohort(order)
    moved = counted_rounds(state.control, order, region.name)
    messages = dict.fromkeys(cohort, message)
    if order.control is not None:
        messages = control_orders(message, order, cohort, moved)

    def on_answer(name: str, answer: WireMessage) -> None:
        assert isinstance(answer, ClientUpdate)
        if answer.client != name or answer.round != order.round:
            raise UpdateError(f"an answer of {answer.client} for round {answer.round}")
        sums.add(answer, in_first_half=cohort.index(name) % 2 == 0)

    answers = region.exchange(
        order,
        messages,
        message_type="train",
        phase="train",
        traffic=traffic,
        on_answer=on_answer,
        reply=ClientUpdate,
    )
    update = sums.total.mean()
    report: dict[str, Any] = {
        **traffic.report(),
        "clients": len(answers.answered),
        "seconds": answers.seconds,
    }
    known: dict[str, Any] = {"examples": 0, "labels": {}}
    if terms.mode is Mode.PAPER:
        release = release_mean(region, order, terms, update, tuple(answers.answered))
        update = release.vector
        report |= {"privacy": [release.charge], "noise_std": release.noise_std}
    elif sums.told:
        known = {"examples": sums.examples, "labels": sums.labels}
        report |= {
            **known,
            "loss": float(np.mean([sums.loss[name] for name in sorted(sums.loss)])),
            "variance": _variance(sums),
        }
    else:
        # With DP-SGD on the clients only their updates leave them.
        report["variance"] = _variance(sums)
    by_examples = region.config.server.region_weights == "examples"
    answer = RegionUpdate(
        region=region.name,
        round=order.round,
        weight=sums.examples if by_examples else 1,
        update=update,
        buffers=sums.buffers.mean() if sums.buffers is not None else None,
        report=report,
        control=None if sums.control is None else sums.control.mean(),
    )
    if sums.control is not None:
        keep = region.config.run.keep_checkpoints + 1
        known["control"] = with_answers(moved, answers.answered, round=order.round, keep=keep)
    return answer, replace(state, round=order.round, theta=order.theta, update=update, **known)


def _variance(sums: _Sums) -> float | None:
    """V_r from the two halves of the cohort (algorithm section 4), or None for a single client."""
    first = sums.first_half
    rest = sums.total.without(first)
    if first.terms == 0 or rest.terms == 0:
        return None
    return variance_from_halves(first.mean(), rest.mean(), n_a=first.effective, n_b=rest.effective)
