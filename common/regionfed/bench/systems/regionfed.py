"""RegionFed's strategies on the benchmark's core, by the protocol that the coordinators follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from regionfed.bench.federation import Federation, RegionalMean
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import System
from regionfed.bench.systems.personalise import (
    local_displacement,
    lookahead_gradient,
    residual_verdict,
    searched,
)
from regionfed.config.base import Section
from regionfed.method.chosen import optimizer_of, router_of, strategy_named
from regionfed.method.config import StrategyName
from regionfed.method.conflict import calibrate_mu, conflict, label_divergence, noise_floor
from regionfed.method.exact import ExactMean
from regionfed.method.rho import RhoResult
from regionfed.method.router import (
    RegionFacts,
    RouterState,
)
from regionfed.method.server_opt import ServerState, derive_mean_update
from regionfed.method.strategies import (
    ClientWork,
    RegionView,
    Strategy,
)
from regionfed.method.strength import strength
from regionfed.method.vectors import Vector


@dataclass
class RegionMemory:
    """What a region's coordinator remembers; vectors are (d,).

    `part` is a direction that waits for its search, `theta_r` the residual.
    """

    update: Vector | None = None
    theta_r: Vector | None = None
    part: Vector | None = None
    strategy: str = ""
    why: str = ""
    alpha: float = 1.0
    router: RouterState = field(default_factory=RouterState)


class RegionFed(System):
    """One strategy of algorithm section 3, with the configuration's `[method]`.

    Clients weigh as `coordinator.client_weights`, regions as `server.region_weights` say. A search
    for rho asks for validation losses as the coordinators do; under differential privacy it would
    be an un-noised query, so Residual is then served unchecked and searches are refused.
    """

    paper: ClassVar[str] = "Nguyen et al., RegionFed (arXiv 2609.05403)"
    own_level: ClassVar[str] = "region"
    strategy: ClassVar[StrategyName]

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.method = federation.config.method
        self.theta: Vector = federation.population.initial
        self.optimizer = optimizer_of(federation.config.server)
        self.state = ServerState()
        self.mu: float | None = None
        self.regions = {region: RegionMemory() for region in federation.population.regions}
        self.router = router_of(self.strategy, self.method)
        self.private = federation.config.privacy.mode != "off"
        self.history: list[dict[str, object]] = []
        self.verdicts: dict[str, dict[str, object]] = {}

    def round(self, number: int) -> None:
        """Train at theta + theta_r, step theta, and let every region take the step in."""
        config = self.federation.config
        by_examples = config.coordinator.client_weights == "examples"
        mean = ExactMean(self.federation.size)
        found: dict[str, RegionalMean] = {}
        weights: dict[str, int] = {}
        for region, memory in self.regions.items():
            start = self.theta if memory.theta_r is None else self.theta + memory.theta_r
            answer = self.federation.regional_mean(
                region, start=start, number=number, by_examples=by_examples
            )
            found[region] = answer
            weights[region] = answer.examples if config.server.region_weights == "examples" else 1
            mean.add(answer.update, weights[region])
            memory.update = answer.update
            self.cost.add(answer.clients)
        before, update = self.theta, mean.mean()
        self.theta, self.state = self.optimizer.step(before, update, self.state)
        conflicts = {region: conflict(answer.update, update) for region, answer in found.items()}
        if self.mu is None:
            self.mu = calibrate_mu(list(conflicts.values()))
        seen = update
        if not self.optimizer.sends_update:
            # What the coordinators see is derived from consecutive thetas.
            seen = derive_mean_update(before, self.theta, eta=config.server.learning_rate)
        floors = _floors(found, weights)
        for region, answer in found.items():
            self._absorb(
                region, answer, found=found, update=seen, floor=floors.get(region), number=number
            )

    def _absorb(
        self,
        region: str,
        answer: RegionalMean,
        *,
        found: dict[str, RegionalMean],
        update: Vector,
        floor: float | None,
        number: int,
    ) -> None:
        """Conflict, strength, route and residual of one region (algorithm sections 3.4 to 3.9)."""
        memory, alpha = self.regions[region], self.method.alpha
        d = conflict(answer.update, update)
        assert self.mu is not None
        memory.alpha = strength(
            d,
            mu=self.mu,
            tau=alpha.temperature,
            alpha_min=alpha.minimum,
            scale=alpha.scale,
        )
        name, memory.why = str(self.strategy), "set by the configuration"
        if self.router is not None:
            facts = self._facts(answer, found, d=d, floor=floor)
            choice = self.router.choose(facts, memory.router, round_=number)
            name, memory.why = choice.strategy, choice.reason
            memory.router = memory.router.after(name, facts)
        residual = self.method.residual.at(number, self.rounds)
        strategy = strategy_named(name, self.method, eta_res=residual)
        view = RegionView(region_update=answer.update, global_update=update)
        kept = memory.theta_r if memory.strategy in (name, "") else None
        memory.theta_r = memory.part = None
        if strategy.needs.stateful:
            memory.theta_r = strategy.displacement(
                RegionView(region_update=answer.update, global_update=update, state=kept)
            )
        elif strategy.needs.searches_rho and strategy.needs.work is ClientWork.NONE:
            memory.part = strategy.displacement(view)
        memory.strategy = name
        self.history.append(
            {
                "round": number,
                "region": region,
                "conflict": d,
                "alpha": memory.alpha,
                "strategy": name,
            }
        )

    def _facts(
        self,
        answer: RegionalMean,
        found: dict[str, RegionalMean],
        *,
        d: float,
        floor: float | None,
    ) -> RegionFacts:
        names = sorted({name for other in found.values() for name in other.labels})
        everyone = [sum(o.labels.get(name, 0.0) for o in found.values()) for name in names]
        own = [answer.labels.get(name, 0.0) for name in names]
        assert self.mu is not None
        return RegionFacts(
            d=d,
            mu=self.mu,
            h=label_divergence(own, everyone) if names else 0.0,
            size=float(answer.examples),
            mean_size=float(np.mean([other.examples for other in found.values()])),
            floor=floor,
        )

    def served(self, number: int, *, final: bool) -> Served:
        """theta + theta_r for Residual; the others find their part where it is due."""
        every = self.method.personalise_every
        due = final or (every > 0 and number % every == 0)
        models = {
            region: self._serve(region, number=number, due=due, final=final)
            for region in self.regions
        }
        return Served(regional=lambda region: models[region])

    def _serve(self, region: str, *, number: int, due: bool, final: bool) -> Vector:
        memory = self.regions[region]
        strategy = strategy_named(memory.strategy or "none", self.method)
        if strategy.needs.stateful and memory.theta_r is not None:
            part = self._scaled(strategy, memory, memory.theta_r)
            if not due or self.private:
                return self.theta + part
            result = residual_verdict(self.federation, region, base=self.theta, part=part)
            self._conclude(region, result, number=number)
            return self.theta + part if result.helped else self.theta
        if not (strategy.needs.searches_rho and due):
            return self.theta
        direction = self._direction(region, strategy, memory, number=number)
        part = self._scaled(strategy, memory, direction)
        result = searched(self.federation, region, base=self.theta, direction=part)
        # The first points of the search ride on the evaluation where nothing has to be done first.
        carried = 1 if strategy.needs.work is ClientWork.NONE else 0
        clients = len(self.federation.population.members[region])
        extra = result.exchanges - carried
        self.cost.add(clients, down=2.0 * extra, up=0.0, exchanges=extra)
        self._conclude(region, result, number=number)
        # As on a coordinator, what an intermediate search found is served after the last round.
        return self.theta + part * np.float32(result.served) if final else self.theta

    def _direction(
        self, region: str, strategy: Strategy, memory: RegionMemory, *, number: int
    ) -> Vector:
        work = strategy.needs.work
        answer: Vector | None = None
        if work is ClientWork.LOCAL_TRAINING:
            answer = local_displacement(self.federation, region, base=self.theta, number=number)
        elif work is ClientWork.LOOKAHEAD_GRADIENT:
            answer = lookahead_gradient(self.federation, region, base=self.theta, number=number)
        if answer is None:
            assert memory.part is not None
            return memory.part
        self.cost.add(len(self.federation.cohort(region, number)), exchanges=0)
        assert memory.update is not None
        direction = strategy.displacement(
            RegionView(
                region_update=memory.update, global_update=memory.update, client_answer=answer
            )
        )
        assert direction is not None
        return direction

    def _scaled(self, strategy: Strategy, memory: RegionMemory, part: Vector) -> Vector:
        return part * np.float32(memory.alpha) if strategy.needs.scales_with_alpha else part

    def _conclude(self, region: str, result: RhoResult, *, number: int) -> None:
        """Note the verdict; Dynamic rests a strategy that did not help."""
        memory = self.regions[region]
        self.verdicts[region] = {
            "round": number,
            "strategy": memory.strategy,
            "verdict": result.status.value,
            "rho": result.rho,
            "served": result.served,
        }
        if self.router is None:
            return
        memory.router = memory.router.record(
            memory.strategy, round_=number, helped=result.helped, cooldown=self.router.cooldown
        )
        if not result.helped:
            memory.theta_r = None


def _floors(found: dict[str, RegionalMean], weights: dict[str, int]) -> dict[str, float]:
    variances = [answer.variance for answer in found.values()]
    known = [float(value) for value in variances if value is not None]
    if len(found) < 2 or len(known) < len(found):
        return {}
    floors = noise_floor(known, weights=[float(weights[region]) for region in found])
    return dict(zip(found, (float(floor) for floor in floors), strict=True))


class RegionFedGrad(RegionFed):
    """Grad: along g - g_r, with rho searched."""

    name: ClassVar[str] = "regionfed-grad"
    label: ClassVar[str] = "RegionFed Grad"
    strategy: ClassVar[StrategyName] = "grad"


class RegionFedInterp(RegionFed):
    """Interp: towards the region's locally trained mean, with rho searched."""

    name: ClassVar[str] = "regionfed-interp"
    label: ClassVar[str] = "RegionFed Interp"
    strategy: ClassVar[StrategyName] = "interp"


class RegionFedMeta(RegionFed):
    """Meta: along the regional gradient at the looked-ahead model, with rho searched."""

    name: ClassVar[str] = "regionfed-meta"
    label: ClassVar[str] = "RegionFed Meta"
    strategy: ClassVar[StrategyName] = "meta"


class RegionFedDynamicPaper(RegionFed):
    """Dynamic by the paper's thresholds, without its published failure (section 3.6)."""

    name: ClassVar[str] = "regionfed-dynamic-paper"
    label: ClassVar[str] = "RegionFed Dynamic (paper's rule)"
    strategy: ClassVar[StrategyName] = "dynamic-paper"


class RegionFedDynamic(RegionFed):
    """Dynamic of this project: Residual where there is conflict, nothing where there is none."""

    name: ClassVar[str] = "regionfed-dynamic"
    label: ClassVar[str] = "RegionFed Dynamic"
    paper: ClassVar[str] = "ours, beyond the RegionFed paper (algorithm section 3.6)"
    strategy: ClassVar[StrategyName] = "dynamic"


class RegionFedResidual(RegionFed):
    """Residual: theta_r kept across rounds (section 3.9), no search and FedAvg's bytes."""

    name: ClassVar[str] = "regionfed-residual"
    label: ClassVar[str] = "RegionFed Residual"
    paper: ClassVar[str] = "ours, beyond the RegionFed paper (algorithm section 3.9)"
    strategy: ClassVar[StrategyName] = "residual"
