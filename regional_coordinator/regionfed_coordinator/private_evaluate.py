"""The evaluation phase where only noised, charged answers leave a client.

After the last round, and only as far as the budget has a share for it: a look-ahead (Interp,
Meta), the loss differences that choose rho, and the scores. Each is asked of the round's cohort,
whose participation in the round covers it. What has no share is not asked for, and the answer
says so in words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regionfed.errors import PrivacyError, QuorumError
from regionfed.messages import EvaluateOrder, RegionOrder, RegionScores, Vector
from regionfed.method.chosen import strategy_named
from regionfed.method.strategies import ClientWork, RegionView, Strategy
from regionfed.privacy.metric_vector import metric_counts
from regionfed.privacy.quantities import Channel
from regionfed.privacy.terms import RegionTerms
from regionfed_coordinator.absorb import absorb
from regionfed_coordinator.collect import collect
from regionfed_coordinator.keep import keep_on_devices
from regionfed_coordinator.measure import measure
from regionfed_coordinator.region import Region, Traffic
from regionfed_coordinator.release import Release, release_sums
from regionfed_coordinator.state import RegionState

UNCHECKED = "unchecked"
"""Verdict on a part that is served without having been compared: no losses were asked for."""
TELLING = 0.1
"""Noise on a share of rows above which a score says nothing."""


class _Phase:
    """One private evaluation in the making: its charges, its traffic, its notes."""

    def __init__(self, region: Region, order: RegionOrder, terms: RegionTerms) -> None:
        self.region, self.order, self.terms = region, order, terms
        self.traffic = Traffic()
        self.charges: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def ask(self, channel: Channel, *, factor: float = 1.0, **fields: Any) -> Release:
        """One charged release of the round's cohort; `factor` is its unit under adaptive clipping."""
        order, terms = self.order, self.terms
        self.region.require_affordable(order, terms, terms.events(channel, round=order.round))
        message = EvaluateOrder(
            run=order.run,
            region=self.region.name,
            round=order.round,
            digest=order.digest,
            layout=order.layout,
            base=order.theta,
            channel=channel.value,
            **{"levels": (), **fields},
        )
        collected = collect(
            self.region,
            order,
            self.terms,
            channel=channel,
            message=message,
            cohort=self.region.cohort(order),
            traffic=self.traffic,
        )
        released = release_sums(self.region, order, terms, collected, channel=channel)
        (release,) = (each.times(factor) for each in released.values())
        self.charges.append(release.charge)
        return release


def evaluate_privately(
    region: Region, order: RegionOrder, state: RegionState
) -> tuple[RegionScores, RegionState]:
    """The region's scores as far as they are paid for, and its new state.

    A release that fails (budget, quorum, masks) leaves out what it was for and says why; the
    region then serves what it has.
    """
    terms = region.terms(order)
    state = absorb(region.config, region.name, order, state, step=order.round, terms=terms)
    phase = _Phase(region, order, terms)
    personal: dict[str, Any] = {
        **state.personal,
        "strategy": state.strategy or "none",
        "why": state.why,
    }
    part = state.theta_r
    if order.final:
        part, personal = _part(phase, state, personal)
        state = replace(state, part=part, part_round=order.round)
    config, measured = terms.config, terms.config.privacy.audit_metrics == "simulated"
    if order.final and not measured and (config.serves_users or config.client.keep_model):
        phase.notes.append(keep_on_devices(region, order, state, part=part, traffic=phase.traffic))
    counts = _scores(phase, part, state)
    scores = RegionScores(
        region=region.name,
        round=order.round,
        counts=counts,
        personal=personal,
        report={
            **phase.traffic.report(),
            "privacy": phase.charges,
            "notes": phase.notes,
            "noised": terms.config.privacy.audit_metrics != "simulated",
        },
    )
    return scores, replace(state, personal=personal)


def _part(
    phase: _Phase, state: RegionState, personal: dict[str, Any]
) -> tuple[Vector | None, dict[str, Any]]:
    """The displacement that the region serves after the last round, and what is said of it."""
    config, budget = phase.region.config, phase.terms.config.privacy.budget
    strategy = strategy_named(state.strategy or "none", config.method)
    try:
        direction = _direction(phase, strategy, state)
    except (PrivacyError, QuorumError) as error:
        phase.notes.append(f"no regional part: {error}")
        return None, {**personal, "served": 0.0, "explanation": str(error)}
    if direction is None:
        return None, personal
    if strategy.needs.scales_with_alpha:
        direction = direction * np.float32(state.personal.get("alpha", 1.0))
    if not budget.loss_share:
        return direction, {
            **personal,
            "rho": 1.0,
            "served": 1.0,
            "verdict": UNCHECKED,
            "explanation": "rho is 1: losses have no share of the budget, so whether the part "
            "beats the global model was not checked",
        }
    try:
        found = phase.ask(Channel.LOSSES, direction=direction)
    except (PrivacyError, QuorumError) as error:
        phase.notes.append(f"the global model is served, no losses: {error}")
        return None, {**personal, "served": 0.0, "verdict": "rejected", "explanation": str(error)}
    rhos = phase.terms.rhos
    differences = [0.0, *map(float, found.vector)]
    best = int(np.argmin(differences))
    verdict = "rejected" if best == 0 else "upper" if best == len(rhos) - 1 else "interior"
    told = {
        **personal,
        "rho": rhos[best],
        "served": rhos[best],
        "verdict": verdict,
        "explanation": "chosen from noised loss differences to rho = 0, of standard deviation "
        f"{found.noise_std:.2g}",
        "curve": [[rho, value] for rho, value in zip(rhos, differences, strict=True)],
    }
    return (None if best == 0 else direction * np.float32(rhos[best])), told


def _direction(phase: _Phase, strategy: Strategy, state: RegionState) -> Vector | None:
    """theta_r, Grad's direction, or that of a charged look-ahead; None where there is none."""
    needs = strategy.needs
    if needs.stateful:
        return state.theta_r
    if not needs.searches_rho or state.update is None:
        return None
    if needs.work is ClientWork.NONE:
        return state.part
    configured = phase.terms.config.privacy.clipping_norm
    answer = phase.ask(
        Channel.LOOK_AHEAD,
        factor=(state.clipping_norm or configured) / configured,
        work=needs.work.value,
        clipping_norm=state.clipping_norm,
    )
    return strategy.displacement(
        RegionView(
            region_update=state.update,
            global_update=state.update,
            client_answer=answer.vector,
        )
    )


def _scores(phase: _Phase, part: Vector | None, state: RegionState) -> dict[str, dict[str, float]]:
    """Measured outside the promise (simulation only), noised and charged, or none."""
    terms, order = phase.terms, phase.order
    section = terms.config.privacy
    if section.audit_metrics == "simulated":
        user = order.final and terms.config.serves_users
        counts = measure(
            phase.region,
            order,
            part=part,
            region_update=state.update if user else None,
            user=user,
            traffic=phase.traffic,
        )
        phase.notes.append(
            "scores were measured outside the promise, possible in simulation only"
            if counts
            else "no scores: too few clients answered"
        )
        return counts
    if not section.budget.evaluation_share:
        phase.notes.append("scores were not asked for: evaluation has no share of the budget")
        return {}
    if not order.final:
        return {}
    try:
        found = phase.ask(
            Channel.METRICS,
            levels=terms.levels,
            direction=part if "regional" in terms.levels else None,
            serve=1.0 if part is not None else 0.0,
        )
    except (PrivacyError, QuorumError) as error:
        phase.notes.append(f"no scores: {error}")
        return {}
    phase.notes.append(
        f"scores are noised: each value, a share of a client's rows, carries noise of standard "
        f"deviation {found.noise_std:.2g}"
        + (", which is too much for them to tell anything" if found.noise_std > TELLING else "")
    )
    summed = found.vector.astype(np.float64) * terms.expected
    return metric_counts(phase.region.tasks, terms.levels, summed)
