"""Answers that are only ever summed: counted, clipped, encoded and, where it is on, masked.

The order is what protects: the participation is written down before data is touched, and the
state of the masking before the answer leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from regionfed.errors import PrivacyError, UpdateError
from regionfed.messages import SummedVector
from regionfed.privacy.mechanisms import clip
from regionfed.privacy.participation import ParticipationCounter, ParticipationRefused
from regionfed.privacy.quantities import ASKED_ONCE, Channel
from regionfed.privacy.skellam import noise_share
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg.config import Block, SecAggConfig
from regionfed.secagg.encoding import encode, l2_norm
from regionfed.training.seeds import derive_seed
from regionfed_client.device import device_folder
from regionfed_client.runtime import ClientRuntime
from regionfed_client.secure import SecureDevice

Values = NDArray[np.float32] | NDArray[np.float64]


def summed_answer(
    runtime: ClientRuntime,
    terms: RegionTerms,
    *,
    channel: Channel,
    run: str,
    round: int,
    attempt: int,
    step: bytes,
    values: Callable[[], Mapping[str, Values]],
) -> SummedVector:
    """One client's answer in a channel; `values` computes the real values by block.

    Raises ParticipationRefused before `values` is called, SecureAggregationError for a step that
    is refused, PrivacyError where the order and the terms disagree about masks.
    """
    if terms.masked != bool(step):
        raise PrivacyError(
            "this client's updates are summed under secure aggregation, and the order has no "
            "masking request"
            if terms.masked
            else "the order asks for masks, and secure aggregation is off here"
        )
    if terms.mode.per_client:
        _admit(runtime, terms, channel=channel, run=run, round=round, attempt=attempt)
    found = values()
    device = SecureDevice.open(runtime, terms, run=run, channel=channel) if terms.masked else None
    config = device.config if device is not None else terms.secagg(channel)
    words = encode(
        {block.name: _bounded(found[block.name], block, terms) for block in config.blocks},
        config,
        rng=_rounding(runtime, terms, channel=channel, round=round),
        device_noise=_noise(config),
    )
    receipt = b"" if device is None else device.mask(step, words)
    return SummedVector(client=runtime.client, round=round, words=words, receipt=receipt)


def _admit(
    runtime: ClientRuntime,
    terms: RegionTerms,
    *,
    channel: Channel,
    run: str,
    round: int,
    attempt: int,
) -> None:
    """Count this participation; what follows a training round is allowed once, in that round.

    What is asked once in a run is counted first, so that its refusal costs no participation.
    """
    path = device_folder(runtime, purpose="counting participations") / "participation.sqlite"
    counter = ParticipationCounter(
        path,
        max_participations=terms.config.privacy.budget.max_participations,
        min_separation=terms.separation,
    )
    if channel is Channel.FIRST:
        once = ParticipationCounter(path, max_participations=1)
        try:
            once.admit(run=f"{run}/{channel.value}", round=round, attempt=attempt)
        except ParticipationRefused as error:
            raise ParticipationRefused(f"{ASKED_ONCE}: {error}") from error
    if channel.trains:
        counter.admit(run=run, round=round, attempt=attempt)
        return
    if round not in counter.rounds(run):
        raise PrivacyError(
            f"a look at round {round} was asked of a client that took no part in it: only those "
            "who trained are asked again"
        )
    once = ParticipationCounter(path, max_participations=1)
    once.admit(run=f"{run}/{channel.value}", round=round, attempt=attempt)


def _bounded(values: Values, block: Block, terms: RegionTerms) -> Values:
    """The values inside the block's ball: clipped under privacy, refused beyond it without."""
    if terms.mode.per_client:
        if values.dtype == np.float32:
            return clip(values.astype(np.float32, copy=False), block.clip).vector
        return values
    norm = l2_norm(values)
    if norm > block.clip:
        raise UpdateError(
            f"block {block.name!r} has norm {norm:.4g}, and masked sums reach {block.clip:.4g}; "
            "lower privacy.secure_aggregation.scale_bits"
        )
    return values


def _rounding(
    runtime: ClientRuntime, terms: RegionTerms, *, channel: Channel, round: int
) -> np.random.Generator | None:
    """What draws the rounding: the seed without privacy, so that runs repeat; else the system."""
    if terms.mode.private:
        return None
    seed = runtime.config.run.seed
    return np.random.default_rng(
        derive_seed(seed, round, runtime.region, runtime.client, channel.value, "rounding")
    )


def _noise(config: SecAggConfig) -> dict[str, NDArray[np.int64]]:
    """This device's noise shares (mode client-strict), by block."""
    return {
        block.name: noise_share(block.length, variance=block.device_noise_std**2)
        for block in config.blocks
        if block.device_noise_std > 0
    }
