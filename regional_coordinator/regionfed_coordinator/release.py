"""The one place where a sum becomes a release: charged first, then noised, then divided.

Nothing un-noised is returned from here, and nothing is noised before the ledger has the charge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regionfed.messages import RegionOrder, Vector
from regionfed.privacy.desk_ledger import ChargeAnswer
from regionfed.privacy.events import Event, RawQuery
from regionfed.privacy.matrix_factorisation import CorrelatedNoise
from regionfed.privacy.mechanisms import (
    add_gaussian,
    clip,
    integer_gaussian,
    integer_noise,
    noised_mean,
)
from regionfed.privacy.modes import Mode
from regionfed.privacy.quantities import Channel, Quantity
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg.config import Block
from regionfed_coordinator.collect import Collected
from regionfed_coordinator.region import Region
from regionfed_coordinator.state import RegionState


@dataclass(frozen=True)
class Release:
    """A noised mean, float32, its noise per coordinate, and the charge that paid for it."""

    vector: Vector
    noise_std: float
    charge: dict[str, Any]

    def times(self, factor: float) -> Release:
        """The release in units that are `factor` times as large, its clip with it."""
        if factor == 1.0:
            return self
        charge = {**self.charge, "clipping_norm": self.charge["clipping_norm"] * factor}
        return Release(self.vector * np.float32(factor), self.noise_std * factor, charge)


def release_sums(
    region: Region,
    order: RegionOrder,
    terms: RegionTerms,
    collected: Collected,
    *,
    channel: Channel,
) -> dict[Quantity, Release]:
    """Charge every quantity of a channel's sum, then release them over the expected cohort.

    Correlated noise is not drawn here (`release_correlated`). Raises BudgetExhausted before
    anything is released, PrivacyError where a rule of the ledger forbids it.
    """
    charges = _charged(region, order, terms, collected, channel=channel)
    return {
        quantity: _independent(terms, collected, block, charge)
        for quantity, block, charge in charges
    }


def release_correlated(
    region: Region,
    order: RegionOrder,
    terms: RegionTerms,
    collected: Collected,
    state: RegionState,
    *,
    channel: Channel,
) -> tuple[dict[Quantity, Release], RegionState]:
    """As `release_sums` for the training sum of client-mf; the state keeps the update's noise.

    The state has to become durable together with the release. A round that was skipped draws its
    noise too, because participations are counted in rounds (module matrix_factorisation). What
    travels beside the update has independent noise.
    """
    released: dict[Quantity, Release] = {}
    for quantity, block, charge in _charged(region, order, terms, collected, channel=channel):
        if quantity is not Quantity.UPDATE:
            released[quantity] = _independent(terms, collected, block, charge)
            continue
        source = _source(terms, block, state)
        for _ in range(order.round - 1 - state.noise_round):
            source.next()
        noise = integer_noise(source.next(), scale=block.scale)
        kept = source.state()["history"].astype(np.float32).reshape(-1)
        state = replace(state, noise=kept, noise_round=order.round)
        std = source.innovation_std / terms.expected
        released[quantity] = Release(_mean(terms, collected, block, noise), std, charge)
    return released, state


def _charged(
    region: Region,
    order: RegionOrder,
    terms: RegionTerms,
    collected: Collected,
    *,
    channel: Channel,
) -> list[tuple[Quantity, Block, dict[str, Any]]]:
    """Each quantity with its block and its durable charge; nothing is noised before all are."""
    found = []
    events = terms.events(channel, round=order.round)
    for (quantity, event), block in zip(events.items(), terms.blocks(channel), strict=True):
        answer = region.charge(order, terms, event, collected.clients)
        found.append((quantity, block, _charge(event, block, answer)))
    return found


def _independent(
    terms: RegionTerms, collected: Collected, block: Block, charge: dict[str, Any]
) -> Release:
    noise = None
    if terms.mode is not Mode.CLIENT_STRICT:
        noise = integer_gaussian(
            block.length,
            noise_multiplier=block.noise_multiplier,
            clip_norm=block.clip,
            scale=block.scale,
        )
    std = _noise_std(terms, block, len(collected.clients))
    return Release(_mean(terms, collected, block, noise), std, charge)


def _mean(
    terms: RegionTerms, collected: Collected, block: Block, noise: NDArray[np.int64] | None
) -> Vector:
    return noised_mean(
        collected.sums[block.name], noise, scale=block.scale, expected_cohort=terms.expected
    )


def release_mean(
    region: Region, order: RegionOrder, terms: RegionTerms, mean: Vector, clients: tuple[str, ...]
) -> Release:
    """Mode paper: clip the regional mean and noise it, charged to the region as a whole."""
    section = terms.config.privacy
    sigma = terms.multiplier(Quantity.UPDATE)
    event = terms.event(Quantity.UPDATE, round=order.round)
    answer = region.charge(order, terms, event, clients)
    vector = add_gaussian(
        clip(mean, section.clipping_norm).vector,
        noise_multiplier=sigma,
        clip_norm=section.clipping_norm,
    )
    block = Block(event.kind, mean.size, section.clipping_norm, 1.0)
    return Release(vector, sigma * section.clipping_norm, _charge(event, block, answer))


def charge_raw(region: Region, order: RegionOrder, terms: RegionTerms, what: str) -> dict[str, Any]:
    """Mode paper: write down that un-noised data leaves the clients; its epsilon is infinite."""
    event = RawQuery(round=order.round, what=what)
    answer = region.charge(order, terms, event, ())
    return _charge(event, Block(what, 1, terms.config.privacy.clipping_norm, 1.0), answer)


def _source(terms: RegionTerms, block: Block, state: RegionState) -> CorrelatedNoise:
    sigma, clip_norm = block.noise_multiplier, block.clip
    if state.noise is None:
        return CorrelatedNoise(
            dimension=block.length,
            bands=terms.bands,
            noise_multiplier=sigma,
            clip_norm=clip_norm,
            round=0,
        )
    header = np.array([block.length, terms.bands, sigma, clip_norm, state.noise_round])
    return CorrelatedNoise.from_state(
        {"header": header, "history": state.noise.reshape(-1, block.length)}
    )


def _noise_std(terms: RegionTerms, block: Block, clients: int) -> float:
    """Standard deviation of the noise in one coordinate of the released mean."""
    if terms.mode is Mode.CLIENT_STRICT:
        steps = block.device_noise_std * float(np.sqrt(clients))
        return steps / (block.scale * terms.expected)
    return block.noise_multiplier * block.clip / terms.expected


def _charge(event: Event, block: Block, answer: ChargeAnswer) -> dict[str, Any]:
    """What the record of this charge says (`run.records.PrivacyRecord`)."""
    return {
        "round": event.round,
        "release": event.kind,
        "noise_multiplier": getattr(event, "noise_multiplier", 0.0),
        "clipping_norm": block.clip,
        "epsilon": answer.epsilon,
        "epsilon_external": answer.epsilon_external,
        "delta": answer.delta,
        "entry": answer.seq,
        "hash": answer.hash,
    }
