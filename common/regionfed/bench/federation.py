"""The fast core of the benchmark: rounds of local training and exact means, in this process.

It stands in for the three tiers with the same selection, seeds, local training and aggregation as
`regionfed simulate`, without messages between them. Systems are written against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from regionfed.bench.population import Member, Population
from regionfed.config.federation import FederationConfig
from regionfed.errors import ConfigError
from regionfed.method.conflict import variance_from_halves
from regionfed.method.exact import ExactMean
from regionfed.method.vectors import Vector, clip_to_norm
from regionfed.privacy.mechanisms import add_gaussian
from regionfed.training.batched import batched_train, choose_mode
from regionfed.training.config import TrainingConfig
from regionfed.training.hooks import StepHooks
from regionfed.training.local import LocalResult, local_train
from regionfed.training.seeds import derive_seed

STACK = 32
"""Most clients that are trained in one pass, so that memory does not grow with their number."""


@dataclass(frozen=True)
class RegionalMean:
    """The mean update g_r of a region's cohort, (d,), and what its coordinator reports with it.

    `variance` is V_r of `method.conflict.variance_from_halves`, None for a cohort of one.
    """

    update: Vector
    examples: int
    clients: int
    loss: float
    labels: dict[str, float]
    variance: float | None


@dataclass
class Federation:
    """The configuration at work on a population.

    `stack` trains clients in one pass where that is faster (`training.batched`); results are then
    equal up to rounding only to those of systems that add something to each client's steps.
    """

    config: FederationConfig
    population: Population
    stack: bool = True
    _stacked: bool = field(init=False)

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a privacy mode that this core does not model."""
        if self.config.privacy.example_level:
            raise ConfigError(
                "privacy.example_level = true: the benchmark does not model DP-SGD on clients; set "
                "it to false, or run the federation with `regionfed simulate`"
            )
        if self.config.privacy.mode not in ("off", "client", "paper"):
            raise ConfigError(
                f"privacy.mode = {self.config.privacy.mode!r}: the benchmark models 'off', "
                "'client' and 'paper'; measure the others with `regionfed simulate`"
            )
        population = self.population
        self._stacked = self.stack and (
            choose_mode(population.model, population.flat, self.config.training) == "stacked"
        )

    @property
    def training(self) -> TrainingConfig:
        """The local training of the configuration."""
        return self.config.training

    @property
    def size(self) -> int:
        """Length d of the vector."""
        return self.population.initial.size

    def cohort(self, region: str, number: int) -> list[Member]:
        """Clients of a region that train in a round, as its coordinator selects them."""
        members = self.population.members[region]
        size = self.config.coordinator.cohort
        if size == 0 or size >= len(members):
            return list(members)
        seed = derive_seed("cohort", self.config.run.seed, number, region)
        chosen = np.random.default_rng(seed).choice(len(members), size=size, replace=False)
        return [members[place] for place in sorted(chosen)]

    def seed(self, member: Member, number: int, *salt: str) -> int:
        """The seed of one piece of a client's work, the same as on a deployed client."""
        return derive_seed(self.config.run.seed, number, member.region, member.client, *salt)

    def train(
        self,
        member: Member,
        *,
        start: Vector,
        number: int,
        salt: Sequence[str] = (),
        training: TrainingConfig | None = None,
        hooks: StepHooks | None = None,
    ) -> LocalResult:
        """Local training of one client from `start`."""
        return local_train(
            self.population.model,
            self.population.flat,
            member.train,
            training or self.training,
            seed=self.seed(member, number, *salt),
            start=start,
            hooks=hooks,
        )

    def train_all(
        self,
        members: Sequence[Member],
        *,
        start: Vector,
        number: int,
        salt: Sequence[str] = (),
        training: TrainingConfig | None = None,
        hooks: Callable[[Member], StepHooks | None] | None = None,
    ) -> Iterator[tuple[Member, LocalResult]]:
        """Local training of several clients from one start, stacked where that is faster."""
        if hooks is None and self._stacked:
            for at in range(0, len(members), STACK):
                part = members[at : at + STACK]
                results = batched_train(
                    self.population.model,
                    self.population.flat,
                    [member.train for member in part],
                    training or self.training,
                    seeds=[self.seed(member, number, *salt) for member in part],
                    starts=start,
                )
                yield from zip(part, results, strict=True)
            return
        for member in members:
            yield (
                member,
                self.train(
                    member,
                    start=start,
                    number=number,
                    salt=salt,
                    training=training,
                    hooks=hooks(member) if hooks is not None else None,
                ),
            )

    def regional_mean(
        self,
        region: str,
        *,
        start: Vector,
        number: int,
        by_examples: bool,
        salt: Sequence[str] = (),
        training: TrainingConfig | None = None,
        hooks: Callable[[Member], StepHooks | None] | None = None,
    ) -> RegionalMean:
        """Train a region's cohort from `start` and take the mean, noised where privacy is on."""
        cohort = self.cohort(region, number)
        trained = self.train_all(
            cohort, start=start, number=number, salt=salt, training=training, hooks=hooks
        )
        return self.mean_of(
            ((member, result.update, result.loss) for member, result in trained),
            cohort=cohort,
            by_examples=by_examples,
        )

    def mean_of(
        self,
        answers: Iterator[tuple[Member, Vector, float]],
        *,
        cohort: Sequence[Member],
        by_examples: bool,
    ) -> RegionalMean:
        """The mean of clients' updates; each is (client, update (d,), training loss)."""
        privacy = self.config.privacy
        total, first = ExactMean(self.size), ExactMean(self.size)
        labels: dict[str, float] = {}
        losses: list[float] = []
        examples = 0
        for place, (member, update, loss) in enumerate(answers):
            if privacy.mode == "client":
                update = clip_to_norm(update, privacy.clipping_norm)
            weight = member.examples if by_examples else 1
            total.add(update, weight)
            if place % 2 == 0:
                first.add(update, weight)
            examples += member.examples
            losses.append(loss)
            for name, count in member.labels.items():
                labels[name] = labels.get(name, 0.0) + count
        rest = total.without(first)
        variance = None
        if first.terms and rest.terms:
            variance = variance_from_halves(
                first.mean(), rest.mean(), n_a=first.effective, n_b=rest.effective
            )
        return RegionalMean(
            update=self._released(total.mean(), clients=len(cohort)),
            examples=examples,
            clients=len(cohort),
            loss=float(np.mean(losses)),
            labels=labels,
            variance=variance,
        )

    def _released(self, mean: Vector, *, clients: int) -> Vector:
        """The mean as it leaves the region (privacy sections 1 and 2)."""
        privacy = self.config.privacy
        if privacy.mode == "off":
            return mean
        if privacy.noise_multiplier is None:
            raise ConfigError(
                f"privacy.mode = {privacy.mode!r} in the benchmark needs "
                "privacy.noise_multiplier, so that it can be set against accuracy"
            )
        norm = privacy.clipping_norm
        if privacy.mode == "paper":
            return add_gaussian(
                clip_to_norm(mean, norm),
                noise_multiplier=privacy.noise_multiplier,
                clip_norm=norm,
            )
        # Noise of sigma*C on the sum is noise of sigma*C/n on the mean.
        return add_gaussian(
            mean, noise_multiplier=privacy.noise_multiplier, clip_norm=norm / clients
        )
