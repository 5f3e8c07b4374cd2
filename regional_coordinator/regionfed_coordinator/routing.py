"""Which strategy a region gets for the next round, from what may be known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regionfed.config.federation import FederationConfig
from regionfed.method.chosen import router_of
from regionfed.method.router import RegionFacts, RouterState
from regionfed_coordinator.census import LOST, divergence_beyond_noise, size_beyond_noise
from regionfed_coordinator.measured import MeasuredConflict
from regionfed_coordinator.state import RegionState


@dataclass(frozen=True)
class Route:
    """The strategy, why, h_r where it was needed, and the router's memory."""

    strategy: str
    why: str
    divergence: float | None
    memory: dict[str, Any]


def route(
    config: FederationConfig,
    region: str,
    shared: dict[str, Any],
    state: RegionState,
    *,
    measured: MeasuredConflict,
    mu: float,
) -> Route:
    """Route the region, where conflict may be acted on; else it keeps Residual."""
    router = router_of(config.method.strategy, config.method)
    if router is None:
        return Route(config.method.regional, "set by the configuration", None, state.router)
    if not measured.gate.routing:
        return Route("residual", measured.gate.reason, None, state.router)
    facts, doubts = _facts(config, region, shared, state, measured=measured, mu=mu)
    memory = RouterState.from_dict(state.router) if state.router else RouterState()
    choice = router.choose(facts, memory, round_=state.round)
    why = "; ".join([choice.reason, *doubts])
    return Route(choice.strategy, why, facts.h, memory.after(choice.strategy, facts).to_dict())


def _facts(
    config: FederationConfig,
    region: str,
    shared: dict[str, Any],
    state: RegionState,
    *,
    measured: MeasuredConflict,
    mu: float,
) -> tuple[RegionFacts, list[str]]:
    """d, h and n as far as they stand out of noise, and in words what does not."""
    census, doubts = state.census, []
    if LOST in census:
        doubts.append(str(census[LOST]))
    h, why_h = divergence_beyond_noise(
        state.labels, dict(shared.get("labels", {})), std=float(census.get("labels_std", 0.0))
    )
    mean_size = float(shared.get("mean_examples", state.examples))
    size, why_n = size_beyond_noise(
        float(state.examples),
        mean_size,
        ratio=config.method.dynamic.size_ratio,
        std=float(census.get("examples_std", 0.0)),
    )
    if census:
        doubts += [why for why in (why_h, why_n) if why]
    floor = dict(shared.get("floors", {})).get(region)
    d = measured.conflict
    if measured.floor is not None and config.method.strategy == "dynamic":
        # The Residual router compares a distance that holds its noise with the noise alone.
        d, floor = measured.raw, measured.floor
    facts = RegionFacts(
        d=d,
        mu=mu,
        h=h,
        size=size,
        mean_size=mean_size,
        floor=None if floor is None else float(floor),
    )
    return facts, doubts
