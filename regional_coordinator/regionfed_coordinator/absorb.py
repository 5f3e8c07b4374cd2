"""Taking in the global step: conflict, strength, the strategy of the next round, the residual.

This runs once per round, when theta_{t+1} first reaches the region (with the evaluation order, or
with the next training order where evaluation was left out). It uses released values only, so it
costs no privacy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regionfed.config.federation import FederationConfig
from regionfed.messages import RegionOrder
from regionfed.method.chosen import strategy_named
from regionfed.method.conflict import conflict
from regionfed.method.server_opt import derive_mean_update
from regionfed.method.strategies import RegionView
from regionfed.method.strength import strength
from regionfed.privacy.terms import RegionTerms
from regionfed_coordinator.measured import measured_conflict
from regionfed_coordinator.routing import route
from regionfed_coordinator.state import RegionState


def absorb(
    config: FederationConfig,
    region: str,
    order: RegionOrder,
    state: RegionState,
    *,
    step: int,
    terms: RegionTerms | None = None,
) -> RegionState:
    """Take in the global step of round `step`, from theta_t (kept in `state`) to `order.theta`.

    Measures d_r, sets alpha_r, routes (Dynamic) and moves the residual. Does nothing for a round
    that was absorbed already, and nothing but note it for one in which the region had no part.
    """
    if state.round == 0 or state.absorbed >= state.round:
        return state
    if state.update is None or state.theta is None or state.round != step:
        return replace(state, absorbed=state.round)
    mean_update = (
        order.mean_update
        if order.mean_update is not None
        else derive_mean_update(state.theta, order.theta, eta=config.server.learning_rate)
    )
    shared = order.shared
    raw = conflict(state.update, mean_update)
    measured = measured_conflict(
        raw, region=region, shared=shared, history=state.history, terms=terms
    )
    d, gate = measured.conflict, measured.gate
    mu = float(shared.get("mu", d))
    alpha = strength(
        d if gate.measured_alpha else mu,
        mu=mu,
        tau=config.method.alpha.temperature,
        alpha_min=config.method.alpha.minimum,
        scale=config.method.alpha.scale,
    )
    personal: dict[str, Any] = {"conflict": d, "mu": mu, "alpha": alpha}
    if not gate.measured_alpha:
        # Not a measurement but noise: it is not shown as one.
        personal = {"alpha": alpha, "gate": gate.reason}
    chosen = route(config, region, shared, state, measured=measured, mu=mu)
    if chosen.divergence is not None:
        personal["divergence"] = chosen.divergence
    name = chosen.strategy
    strategy = strategy_named(
        name, config.method, eta_res=config.method.residual.at(step, config.run.rounds)
    )
    theta_r = None
    if strategy.needs.stateful:
        kept = state.theta_r if state.strategy in (name, "") else None
        theta_r = strategy.displacement(
            RegionView(region_update=state.update, global_update=mean_update, state=kept)
        )
    part = None
    if strategy.needs.searches_rho and strategy.needs.work.value == "none":
        part = strategy.displacement(
            RegionView(region_update=state.update, global_update=mean_update)
        )
    return replace(
        state,
        absorbed=state.round,
        theta_r=theta_r,
        part=part,
        part_round=state.round,
        strategy=name,
        why=chosen.why,
        router=chosen.memory,
        personal=personal,
        history=[
            *state.history,
            {
                "round": state.round,
                "conflict": d,
                "alpha": alpha,
                "strategy": name,
                **measured.entry(),
            },
        ],
    )
