"""The training phase in a mode that protects clients: one noised, charged vector of sums.

The vector carries the update and whatever else the run acts on (regionfed.privacy.quantities),
each with its own clip, noise and charge; no further exchange is made for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regionfed.errors import PrivacyError, QuorumError
from regionfed.messages import RegionOrder, RegionUpdate, TrainOrder
from regionfed.privacy.adaptive_clip import ClipDecision, next_clip_norm
from regionfed.privacy.conflict_gate import conflict_gate
from regionfed.privacy.modes import Mode
from regionfed.privacy.quantities import ASKED_ONCE, Channel, Quantity
from regionfed.privacy.terms import RegionTerms
from regionfed_coordinator.census import LOST, census_of
from regionfed_coordinator.collect import Collected, collect
from regionfed_coordinator.region import Region, Traffic
from regionfed_coordinator.release import Release, release_correlated, release_sums
from regionfed_coordinator.state import RegionState


def train_privately(
    region: Region,
    order: RegionOrder,
    state: RegionState,
    terms: RegionTerms,
    message: TrainOrder,
    traffic: Traffic,
) -> tuple[RegionUpdate, RegionState]:
    """Ask the cohort for its sums and release them.

    Raises:
        BudgetExhausted: before anybody is asked. QuorumError, PrivacyError: too few answers, or a
            rule that forbids the release; nothing is revealed.
    """
    configured = terms.config.privacy.clipping_norm
    norm = state.clipping_norm or configured
    adaptive = Quantity.CLIP_BIT in terms.beside.asked
    message = replace(message, clipping_norm=norm if adaptive else 0.0)
    channel, collected, state = _ask(region, order, state, terms, message, traffic)
    if terms.mode is Mode.CLIENT_MF:
        released, state = release_correlated(
            region, order, terms, collected, state, channel=channel
        )
    else:
        released = release_sums(region, order, terms, collected, channel=channel)
    # An update and its sketch travel in units of the C in force.
    for quantity in (Quantity.UPDATE, Quantity.SKETCH):
        if quantity in released:
            released[quantity] = released[quantity].times(norm / configured)
    if channel is Channel.FIRST:
        state = replace(state, census=census_of(terms, released))
    update, sketch = released[Quantity.UPDATE], released.get(Quantity.SKETCH)
    report = {
        **traffic.report(),
        "clients": len(collected.clients),
        "seconds": collected.seconds,
        "privacy": [release.charge for release in released.values()],
        "noise_std": update.noise_std,
        "notes": _notes(terms, state),
        **_census(state),
    }
    if sketch is not None:
        gate = conflict_gate(clients_per_region=terms.cohort, private=True)
        report |= {"sketch_std": sketch.noise_std, "conflict_window": gate.window}
    if adaptive:
        decision = _next_norm(terms, norm, released[Quantity.CLIP_BIT])
        norm = decision.clip_norm
        if not decision.adaptive:
            report["notes"] = [*_notes(terms, state), decision.reason]
    answer = RegionUpdate(
        region=region.name,
        round=order.round,
        weight=1,
        update=update.vector,
        sketch=None if sketch is None else sketch.vector,
        report=report,
    )
    return answer, replace(
        state,
        round=order.round,
        theta=order.theta,
        update=update.vector,
        clipping_norm=norm if adaptive else 0.0,
        examples=round(state.census.get("examples", 0.0)),
        labels=dict(state.census.get("labels", {})),
    )


def _ask(
    region: Region,
    order: RegionOrder,
    state: RegionState,
    terms: RegionTerms,
    message: TrainOrder,
    traffic: Traffic,
) -> tuple[Channel, Collected, RegionState]:
    """The sums of the round's cohort, with what is asked once where the region has none yet.

    Clients that gave it to an attempt which was lost refuse to give it twice; if too few are left
    for the round, they are asked for their updates alone, now and from then on.
    """
    first = terms.asks_once and not state.census
    channel = Channel.FIRST if first else Channel.TRAIN
    try:
        return channel, _collected(region, order, terms, message, traffic, channel=channel), state
    except (QuorumError, PrivacyError):
        if not first or not any(ASKED_ONCE in why for why in traffic.left_out.values()):
            raise
    traffic.left_out.clear()
    reason = "labels and sizes were given to an attempt that was lost, and are not asked for twice"
    channel = Channel.TRAIN
    collected = _collected(region, order, terms, message, traffic, channel=channel)
    return channel, collected, replace(state, census={LOST: reason})


def _collected(
    region: Region,
    order: RegionOrder,
    terms: RegionTerms,
    message: TrainOrder,
    traffic: Traffic,
    *,
    channel: Channel,
) -> Collected:
    region.require_affordable(order, terms, terms.events(channel, round=order.round))
    return collect(
        region,
        order,
        terms,
        channel=channel,
        message=replace(message, channel=channel.value),
        cohort=region.cohort(order),
        traffic=traffic,
    )


def _next_norm(terms: RegionTerms, norm: float, bit: Release) -> ClipDecision:
    """C of the next round, from the noised share of updates within this one's."""
    return next_clip_norm(
        norm,
        noised_bit_sum=float(bit.vector[0]) * terms.expected,
        expected_cohort=terms.expected,
        quantile=terms.config.privacy.clip_quantile,
    )


def _notes(terms: RegionTerms, state: RegionState) -> list[str]:
    """What the report says about releases that are not made."""
    notes = [terms.beside.note(), str(state.census.get(LOST, ""))]
    return [note for note in notes if note]


def _census(state: RegionState) -> dict[str, Any]:
    """The noised figures again in every round: the server derives means from those it has."""
    return {key: value for key, value in state.census.items() if key in ("labels", "examples")}
