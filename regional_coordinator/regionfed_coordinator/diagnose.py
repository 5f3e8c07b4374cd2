"""The region's part of a diagnosis: one round of training, answered in means of client groups.

It reads and changes nothing of the region's state, so that a running federation goes on as if it
had not been asked. Clients see an ordinary training order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regionfed.diagnosis.settings import GROUPS, PHASE, WIDTH, group_count, require_diagnosable
from regionfed.errors import QuorumError, UpdateError
from regionfed.messages import (
    ClientUpdate,
    GroupUpdates,
    RegionOrder,
    TrainOrder,
    Vector,
    WireMessage,
    finite_vector,
)
from regionfed.method.exact import ExactMean
from regionfed.privacy.sketch import count_sketch
from regionfed.training.seeds import derive_seed
from regionfed_coordinator.region import Region, Traffic


def diagnose_region(region: Region, order: RegionOrder) -> GroupUpdates:
    """Ask the cohort to train from theta_t and average by group (algorithm section 4).

    The groups are the same in every round of a diagnosis: the same clients are asked, whatever
    the cohort of a round would be. Raises PrivacyError where the configuration promises more
    than this keeps.
    """
    config = region.config
    require_diagnosable(config)
    # A round's cohort depends on its number; units must be the same over the rounds.
    cohort = region.cohort(replace(order, round=0))
    count = group_count(int(order.shared.get(GROUPS, 0)), len(cohort))
    size = order.theta.size
    means = [ExactMean(size) for _ in range(count)]
    buffers = None if order.buffers is None else ExactMean(order.buffers.size)
    by_examples = config.coordinator.client_weights == "examples"
    losses: dict[str, float] = {}
    labels: dict[str, float] = {}
    examples = 0
    traffic = Traffic()

    def on_answer(name: str, answer: WireMessage) -> None:
        nonlocal examples
        assert isinstance(answer, ClientUpdate)
        if answer.client != name or answer.round != order.round:
            raise UpdateError(f"an answer of {answer.client} for round {answer.round}")
        if answer.examples < 1:
            raise UpdateError("the client trained on no example")
        update = finite_vector("update", answer.update, size)
        weight = answer.examples if by_examples else 1
        if buffers is not None and order.buffers is not None:
            buffers.add(finite_vector("buffers", answer.buffers, order.buffers.size), weight)
        means[cohort.index(name) % count].add(update, weight)
        losses[name] = answer.loss
        examples += answer.examples
        for label, number in answer.labels.items():
            labels[label] = labels.get(label, 0.0) + number

    message = TrainOrder(
        run=order.run,
        region=region.name,
        round=order.round,
        digest=order.digest,
        layout=order.layout,
        start=order.theta,
        buffers=order.buffers,
    )
    try:
        region.exchange(
            order,
            dict.fromkeys(cohort, message),
            message_type="train",
            phase=PHASE,
            traffic=traffic,
            on_answer=on_answer,
            reply=ClientUpdate,
        )
        if any(mean.terms == 0 for mean in means):
            raise QuorumError(
                f"region {region.name}: no client of one of the {count} groups gave a usable "
                "answer, so this round cannot be compared with the others"
            )
    except QuorumError as error:
        return GroupUpdates(
            region=region.name, round=order.round, skipped=str(error), report=traffic.report()
        )
    width = int(order.shared.get(WIDTH, 0))
    # All regions must fold their updates in the same way: the run's name, not a site's seed.
    seed = derive_seed("sketch", order.run)
    return GroupUpdates(
        region=region.name,
        round=order.round,
        groups=np.concatenate([_shown(mean.mean(), width, seed) for mean in means]),
        clients=tuple(mean.effective for mean in means),
        buffers=None if buffers is None else buffers.mean(),
        examples=examples,
        loss=float(np.mean([losses[name] for name in sorted(losses)])),
        labels=labels,
        report=traffic.report(),
    )


def _shown(mean: Vector, width: int, seed: int) -> Vector:
    """The mean itself, or its sketch where the server asks for one."""
    return count_sketch(mean, width=width, seed=seed) if width else mean
