"""What every compared system is: rounds, what it serves at the end, and what it costs.

A system draws its selection, local training and means from `bench.federation`, so that systems
differ in their idea alone. Vectors are flat float32 of length d; updates are start minus end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from regionfed.bench.federation import Federation
from regionfed.bench.population import Member
from regionfed.bench.scoring import Served
from regionfed.config.base import Section
from regionfed.method.chosen import optimizer_of
from regionfed.method.exact import ExactMean
from regionfed.method.server_opt import ServerState
from regionfed.method.vectors import Vector
from regionfed.training.hooks import StepHooks


class NoOptions(Section):
    """A system without parameters of its own."""


@dataclass
class Cost:
    """What travelled between coordinators and clients, evaluation apart.

    `down` and `up` count model vectors of length d (a part of one counts as its share),
    `exchanges` round trips with a client; all summed over clients and rounds.
    """

    down: float = 0.0
    up: float = 0.0
    exchanges: float = 0.0

    def add(self, clients: int, *, down: float = 1.0, up: float = 1.0, exchanges: int = 1) -> None:
        """Count one step of the protocol with so many clients."""
        self.down += clients * down
        self.up += clients * up
        self.exchanges += clients * exchanges


class System(ABC):
    """One compared system on one federation.

    `label` is its name in tables, `paper` its source. `own_level` says what it serves: one model
    for all, one per region or one per client; `needs_marks` that its inputs carry the region's
    token; `has_curve` that it has something to show before the last round.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    paper: ClassVar[str]
    own_level: ClassVar[str] = "global"
    needs_marks: ClassVar[bool] = False
    has_curve: ClassVar[bool] = True
    options_type: ClassVar[type[Section]] = NoOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        self.federation = federation
        self.options = options if options is not None else self.options_type()
        self.cost = Cost()
        self.notes: dict[str, object] = {}

    @property
    def rounds(self) -> int:
        """Rounds of the whole run."""
        return self.federation.config.run.rounds

    @abstractmethod
    def round(self, number: int) -> None:
        """One communication round; numbers start at 1."""

    @abstractmethod
    def served(self, number: int, *, final: bool) -> Served:
        """What is handed out after round `number`; after the last one, all personal work is done."""


class Averaging(System):
    """Systems around one theta that moves by a mean of regional means.

    Clients weigh by examples and so do regions, as in FedAvg; `equal_regions` weighs every client
    of a region the same and then every region the same.
    """

    equal_regions: ClassVar[bool] = False

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.theta: Vector = federation.population.initial
        self.optimizer = optimizer_of(federation.config.server)
        self.state = ServerState()

    def hooks(self, member: Member) -> StepHooks | None:
        """What the system adds to a client's steps."""
        del member
        return None

    @property
    def plain(self) -> bool:
        """Whether clients train without additions, so that they may be stacked."""
        return type(self).hooks is Averaging.hooks

    def round(self, number: int) -> None:
        """Every region's mean from theta, and the server's step along their mean."""
        regions = self.federation.population.regions
        mean = ExactMean(self.federation.size)
        for region in regions:
            found = self.federation.regional_mean(
                region,
                start=self.theta,
                number=number,
                by_examples=not self.equal_regions,
                hooks=None if self.plain else self.hooks,
            )
            mean.add(found.update, 1 if self.equal_regions else found.examples)
            self.cost.add(found.clients)
        self.theta, self.state = self.optimizer.step(self.theta, mean.mean(), self.state)

    def served(self, number: int, *, final: bool) -> Served:
        """theta for everybody."""
        del number, final
        theta = self.theta
        return Served(regional=lambda region: theta)


class TunedByRegion(Averaging):
    """Systems that end with rounds inside each region: FedAvg among its clients, from theta.

    These rounds are the last ones of the run, not additional ones, so that everybody trains and
    sends equally much.
    """

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.tuned: dict[str, Vector] = {}

    @property
    @abstractmethod
    def regional_rounds(self) -> int:
        """How many of the last rounds stay inside the regions; 0: none."""

    def tuning_hooks(self, member: Member) -> StepHooks | None:
        """What is added to the steps of these rounds."""
        del member
        return None

    def round(self, number: int) -> None:
        """A round of the whole federation, or one inside each region."""
        if number <= self.rounds - self.regional_rounds:
            super().round(number)
            return
        plain = type(self).tuning_hooks is TunedByRegion.tuning_hooks
        for region in self.federation.population.regions:
            start = self.tuned.get(region, self.theta)
            found = self.federation.regional_mean(
                region,
                start=start,
                number=number,
                by_examples=True,
                hooks=None if plain else self.tuning_hooks,
            )
            self.cost.add(found.clients)
            self.tuned[region] = start - found.update

    def served(self, number: int, *, final: bool) -> Served:
        """theta, and from the first round inside the regions on each region's own model."""
        del number, final
        theta, tuned = self.theta, dict(self.tuned)
        return Served(regional=lambda region: tuned.get(region, theta))
