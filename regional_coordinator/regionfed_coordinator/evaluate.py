"""The region's evaluation phase: scores of what is served, and the region's own part.

What personalisation needs from the clients rides on the exchanges that evaluation makes anyway:
Grad's search starts in the first one, Interp's training and Meta's gradient travel with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regionfed.errors import QuorumError, UpdateError
from regionfed.messages import (
    ClientScores,
    EvaluateOrder,
    RegionOrder,
    RegionScores,
    Vector,
    WireMessage,
    finite_vector,
)
from regionfed.method.chosen import router_of, strategy_named
from regionfed.method.exact import ExactMean
from regionfed.method.rho import RhoResult, RhoSearch, check_fixed
from regionfed.method.rivals import ON_DEVICES
from regionfed.method.router import RouterState
from regionfed.method.strategies import ClientWork, RegionView, Strategy
from regionfed.privacy.modes import Mode
from regionfed_coordinator.absorb import absorb
from regionfed_coordinator.private_evaluate import evaluate_privately
from regionfed_coordinator.region import Region, Traffic
from regionfed_coordinator.release import charge_raw
from regionfed_coordinator.state import RegionState

Counts = dict[str, dict[str, float]]
Curve = list[tuple[float, float]]


@dataclass
class _Gathered:
    """Sums over the clients' answers to one exchange."""

    losses: list[float] = field(default_factory=list)
    loss_rows: int = 0
    work: Vector | None = None


@dataclass
class _Evaluation:
    """One evaluation phase in the making."""

    region: Region
    order: RegionOrder
    state: RegionState
    strategy: Strategy
    traffic: Traffic = field(default_factory=Traffic)
    counts: Counts = field(default_factory=dict)
    by_client: dict[str, Counts] = field(default_factory=dict)

    def ask(self, *, base: Vector, work: ClientWork = ClientWork.NONE, **fields: Any) -> _Gathered:
        """One exchange with the clients; counts go to this evaluation, the rest is returned."""
        order, region, gathered = self.order, self.region, _Gathered()
        own = region.config.method.strategy in ON_DEVICES
        message = EvaluateOrder(
            run=order.run,
            region=region.name,
            round=order.round,
            digest=order.digest,
            layout=order.layout,
            base=base,
            buffers=order.buffers,
            work="" if work is ClientWork.NONE else work.value,
            region_update=self.state.update if fields.get("user") and not own else None,
            **fields,
        )
        # Work on training rows is asked of the round's cohort, scores and losses of everybody.
        asked = region.cohort(order) if message.work else sorted(region.clients)
        workers = set(asked)
        sums = ExactMean(base.size) if message.work else None
        by_examples = region.config.coordinator.client_weights == "examples"

        def on_answer(name: str, answer: WireMessage) -> None:
            assert isinstance(answer, ClientScores)
            if answer.client != name or answer.round != order.round:
                raise UpdateError(f"an answer of {answer.client} for round {answer.round}")
            if len(answer.losses) != len(message.rhos):
                raise UpdateError(f"{len(answer.losses)} losses for {len(message.rhos)} points")
            if sums is not None and name in workers:
                work_vector = finite_vector("work", answer.work, base.size)
                sums.add(work_vector, answer.examples if by_examples else 1)
            _add_counts(self.counts, answer.counts)
            _add_counts(self.by_client.setdefault(name, {}), answer.counts)
            if answer.losses:
                old = gathered.losses or [0.0] * len(answer.losses)
                gathered.losses = [a + b for a, b in zip(old, answer.losses, strict=True)]
                gathered.loss_rows += answer.loss_rows

        plain = replace(message, work="")
        messages = {name: message if name in workers else plain for name in sorted(region.clients)}
        region.exchange(
            order,
            messages,
            message_type="evaluate",
            phase="evaluate",
            traffic=self.traffic,
            on_answer=on_answer,
            reply=ClientScores,
        )
        if sums is not None:
            if sums.terms == 0:
                raise QuorumError(f"region {region.name}: no client did the work for personalising")
            gathered.work = sums.mean()
        return gathered

    def search(self, direction: Vector, *, first: dict[str, Any]) -> tuple[RhoResult, Curve]:
        """Search rho along `direction`; `first` are fields that ride on the first exchange."""
        curve: Curve = []
        config = self.region.config.method.rho
        search = RhoSearch(
            lo=config.low, hi=config.high, tol=config.tolerance, points=config.points
        )
        riding = dict(first)
        while not search.done:
            rhos = search.pending()
            found = self.ask(
                base=self.order.theta,
                direction=direction,
                rhos=tuple(rhos),
                **{"levels": (), **riding},
            )
            riding = {}
            losses = _means(found)
            curve += zip(rhos, losses, strict=True)
            search.update(dict(zip(rhos, losses, strict=True)))
        return search.result(), sorted(curve)


def evaluate_region(
    region: Region, order: RegionOrder, state: RegionState
) -> tuple[RegionScores, RegionState]:
    """Score the served models and, where it is due, find the region's part.

    Returns the region's additive counts by level and its new state.
    """
    mode = Mode(region.config.privacy.mode)
    if mode.per_client:
        return evaluate_privately(region, order, state)
    state = absorb(
        region.config, region.name, order, state, step=order.round, terms=region.terms(order)
    )
    strategy = strategy_named(state.strategy or "none", region.config.method)
    evaluation = _Evaluation(region, order, state, strategy)
    try:
        charges = _raw_queries(region, order) if mode is Mode.PAPER else []
        personal, state = _serve(evaluation)
    except QuorumError as error:
        return (
            RegionScores(
                region=region.name,
                round=order.round,
                skipped=str(error),
                personal=state.personal,
                report=evaluation.traffic.report(),
            ),
            state,
        )
    state = replace(state, personal=personal)
    scores = RegionScores(
        region=region.name,
        round=order.round,
        counts=evaluation.counts,
        personal=personal,
        report={
            **evaluation.traffic.report(),
            "by_client": evaluation.by_client,
            "privacy": charges,
        },
    )
    return scores, state


def _raw_queries(region: Region, order: RegionOrder) -> list[dict[str, Any]]:
    """Mode paper asks for scores, losses and work in the open; the ledger says so first."""
    method, section = region.config.method, region.config.privacy
    if section.audit_metrics == "simulated" and method.regional == "none":
        return []
    what = f"scores, losses and work of strategy '{method.strategy}'"
    return [charge_raw(region, order, region.terms(order), what)]


def _serve(evaluation: _Evaluation) -> tuple[dict[str, Any], RegionState]:
    """Run the exchanges of this phase; the region's personal figures and its new state."""
    order, state = evaluation.order, evaluation.state
    method = evaluation.region.config.method
    needs = evaluation.strategy.needs
    due = order.final or (
        method.personalise_every > 0 and order.round % method.personalise_every == 0
    )
    user = order.final and evaluation.region.config.serves_users
    personal = {**state.personal, "strategy": state.strategy or "none", "why": state.why}
    if needs.stateful and state.theta_r is not None:
        if not due:
            evaluation.ask(base=order.theta + state.theta_r, levels=("regional",))
            return personal, state
        return _serve_residual(evaluation, personal, user=user)
    if not (needs.searches_rho and due) or state.update is None:
        evaluation.ask(base=order.theta, levels=("global",), user=user)
        return personal, state
    return _serve_search(evaluation, personal, user=user)


def _serve_residual(
    evaluation: _Evaluation, personal: dict[str, Any], *, user: bool
) -> tuple[dict[str, Any], RegionState]:
    """Score theta and theta + theta_r in one exchange, and serve the latter only if it helps."""
    order, state = evaluation.order, evaluation.state
    part = _scaled(evaluation, state.theta_r)
    found = evaluation.ask(
        base=order.theta,
        direction=part,
        serve=1.0,
        rhos=(0.0, 1.0),
        levels=("global", "regional"),
        user=user,
    )
    curve = list(zip((0.0, 1.0), _means(found), strict=True))
    return _conclude(evaluation, personal, check_fixed(dict(curve)), curve, part)


def _serve_search(
    evaluation: _Evaluation, personal: dict[str, Any], *, user: bool
) -> tuple[dict[str, Any], RegionState]:
    """Find the direction and rho, then (after the last round) score what is served."""
    order, state, strategy = evaluation.order, evaluation.state, evaluation.strategy
    direction = state.part
    riding: dict[str, Any] = {"levels": ("global",)}
    if strategy.needs.work is not ClientWork.NONE:
        found = evaluation.ask(base=order.theta, levels=("global",), work=strategy.needs.work)
        assert state.update is not None
        direction = strategy.displacement(
            RegionView(
                region_update=state.update,
                global_update=state.update,
                client_answer=found.work,
            )
        )
        riding = {}
    part = _scaled(evaluation, direction)
    result, curve = evaluation.search(part, first=riding)
    served = result.served
    if order.final:
        evaluation.ask(
            base=order.theta, direction=part, serve=served, levels=("regional",), user=user
        )
    return _conclude(evaluation, personal, result, curve, part * np.float32(served))


def _scaled(evaluation: _Evaluation, direction: Vector | None) -> Vector:
    """alpha_r*v_r, or v_r where the strategy does not scale with alpha."""
    assert direction is not None, "a due strategy has a displacement"
    if not evaluation.strategy.needs.scales_with_alpha:
        return direction
    return direction * np.float32(evaluation.state.personal["alpha"])


def _conclude(
    evaluation: _Evaluation,
    personal: dict[str, Any],
    result: RhoResult,
    curve: Curve,
    part: Vector,
) -> tuple[dict[str, Any], RegionState]:
    """Write down the verdict; what does not beat no personalisation is not served."""
    state, method = evaluation.state, evaluation.region.config.method
    if not result.helped and "regional" in evaluation.counts:
        for counts in (evaluation.counts, *evaluation.by_client.values()):
            counts["regional"] = dict(counts["global"])
    personal = {
        **personal,
        "rho": result.rho,
        "served": result.served,
        "verdict": result.status.value,
        "explanation": result.explain(),
        "curve": [[rho, loss] for rho, loss in curve if np.isfinite(loss)],
        "search_exchanges": result.exchanges,
    }
    router = router_of(method.strategy, method)
    theta_r = state.theta_r
    memory = state.router
    if router is not None:
        known = RouterState.from_dict(state.router) if state.router else RouterState()
        memory = known.record(
            state.strategy,
            round_=evaluation.order.round,
            helped=result.helped,
            cooldown=router.cooldown,
        ).to_dict()
        if not result.helped:
            theta_r = None
    return personal, replace(
        state,
        part=part if result.helped else None,
        part_round=evaluation.order.round,
        theta_r=theta_r,
        router=memory,
    )


def _means(found: _Gathered) -> list[float]:
    """Mean validation loss per point; infinite where no client had validation rows."""
    if found.loss_rows == 0:
        return [float("inf")] * len(found.losses)
    return [loss / found.loss_rows for loss in found.losses]


def _add_counts(into: Counts, more: Counts) -> None:
    for level, counts in more.items():
        own = into.setdefault(level, {})
        for key, value in counts.items():
            own[key] = own.get(key, 0.0) + float(value)
