"""One exchange whose answers are only summed: openly as integers, or under masks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regionfed.errors import UpdateError
from regionfed.messages import (
    EvaluateOrder,
    RegionOrder,
    SummedVector,
    TrainOrder,
    WireMessage,
)
from regionfed.privacy.quantities import Channel
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg.encoding import signed_sum
from regionfed.secagg.masks import require_words
from regionfed_coordinator.region import Region, Traffic
from regionfed_coordinator.secure import SecureRound

Ask = TrainOrder | EvaluateOrder


@dataclass(frozen=True)
class Collected:
    """The integer sums by block, and who is in them. Never leaves the coordinator un-noised."""

    sums: Mapping[str, NDArray[np.int32]]
    clients: tuple[str, ...]
    seconds: float


def collect(
    region: Region,
    order: RegionOrder,
    terms: RegionTerms,
    *,
    channel: Channel,
    message: Ask,
    cohort: Sequence[str],
    traffic: Traffic,
) -> Collected:
    """Ask the cohort and sum what it answers.

    Raises:
        QuorumError: too few answers. SecureAggregationError: the masked round was abandoned,
            with nothing revealed; its text says why.
    """
    # A nonce rather than a count: an asking that died leaves no trace here, but at the clients.
    message = replace(message, attempt=secrets.randbits(62))
    if terms.masked:
        return _masked(
            region,
            order,
            channel=channel,
            message=message,
            cohort=cohort,
            traffic=traffic,
        )
    config = terms.secagg(channel)
    total = np.zeros(config.length, dtype=np.uint32)

    def on_answer(name: str, answer: WireMessage) -> None:
        words = checked(name, answer, order)
        require_words(words, length=config.length, writable=False)
        np.add(total, words, out=total)

    answers = region.exchange(
        order,
        dict.fromkeys(cohort, message),
        message_type=_type(message),
        phase=channel.value,
        traffic=traffic,
        on_answer=on_answer,
        reply=SummedVector,
    )
    sums = signed_sum(total, config, clients=len(answers.answered))
    return Collected(sums, tuple(answers.answered), answers.seconds)


def _masked(
    region: Region,
    order: RegionOrder,
    *,
    channel: Channel,
    message: Ask,
    cohort: Sequence[str],
    traffic: Traffic,
) -> Collected:
    """Open, ask with masks, unmask: two exchanges beside the one that carries data."""
    round_ = SecureRound(region, order, channel=channel, cohort=cohort, traffic=traffic)
    round_.open()
    messages = {name: replace(message, step=round_.mask_step(name)) for name in round_.opened}

    def on_answer(name: str, answer: WireMessage) -> None:
        words = checked(name, answer, order)
        assert isinstance(answer, SummedVector)
        round_.take(name, words, answer.receipt)

    answers = region.exchange(
        order,
        messages,
        message_type=_type(message),
        phase=channel.value,
        traffic=traffic,
        on_answer=on_answer,
        reply=SummedVector,
    )
    sums = round_.unmask()
    return Collected(sums, tuple(answers.answered), answers.seconds)


def checked(name: str, answer: WireMessage, order: RegionOrder) -> NDArray[np.uint32]:
    """The words of an answer to this order; raises UpdateError for any other."""
    assert isinstance(answer, SummedVector)
    if answer.client != name or answer.round != order.round:
        raise UpdateError(f"an answer of {answer.client} for round {answer.round}")
    if answer.words is None:
        raise UpdateError("the answer has no vector")
    return answer.words


def _type(message: Ask) -> str:
    return "train" if isinstance(message, TrainOrder) else "evaluate"
