"""Training on everybody's rows in one place: what federation is measured against."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from regionfed.bench.federation import Federation
from regionfed.bench.population import Member
from regionfed.bench.rows import joined, picked
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import System
from regionfed.config.base import Section
from regionfed.models.base import EncodedRows
from regionfed.training.batches import steps_of
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed


class CentralizedOptions(Section):
    """Parameters of central training."""

    learning_rate: float | None = Field(
        default=None, gt=0, description="Step size; absent: the clients'."
    )


class Centralized(System):
    """One model trained on the union of all rows, with as many steps as FedAvg takes in all.

    The local optimizer runs through without restarts, at the clients' batch size; so it sees
    exactly as many samples as the federated systems. Its step size is its own, because a client's
    suits steps that are averaged over a cohort. There is nothing to see before the end.
    """

    name: ClassVar[str] = "centralized"
    label: ClassVar[str] = "Centralized"
    paper: ClassVar[str] = "plain training, the usual upper reference"
    has_curve: ClassVar[bool] = False
    options_type: ClassVar[type[Section]] = CentralizedOptions
    options: CentralizedOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.theta = federation.population.initial

    def round(self, number: int) -> None:
        """All work is done in the last round."""
        if number < self.rounds:
            return
        population, config = self.federation.population, self.federation.config
        training = self.federation.training
        steps = sum(
            steps_of(member.examples, training)
            for each in range(1, self.rounds + 1)
            for region in population.regions
            for member in self.federation.cohort(region, each)
        )
        result = local_train(
            population.model,
            population.flat,
            self._rows(population.everyone()),
            training.model_copy(
                update={
                    "steps": steps,
                    "epochs": None,
                    "learning_rate": self.options.learning_rate or training.learning_rate,
                }
            ),
            seed=derive_seed("centralized", config.run.seed),
            start=population.initial,
        )
        self.theta = population.initial - result.update

    def served(self, number: int, *, final: bool) -> Served:
        """The one model."""
        del number, final
        theta = self.theta
        return Served(regional=lambda region: theta)

    def _rows(self, members: list[Member]) -> EncodedRows:
        return joined([member.train for member in members])


class CentralizedRegional(Centralized):
    """Centralized + regional weighting: every input carries its region's token, regions weigh alike.

    The paper does not define its row of this name. Ours gives a central model all that a regional
    one knows: the region of each input, and rows of small regions repeated until every region has
    as many as the largest. It is the bar that a federated system without data sharing aims at.
    """

    name: ClassVar[str] = "centralized-regional"
    label: ClassVar[str] = "Centralized + regional weighting"
    paper: ClassVar[str] = "the RegionFed paper's reference (arXiv 2609.05403), defined by us"
    needs_marks: ClassVar[bool] = True

    def _rows(self, members: list[Member]) -> EncodedRows:
        by_region: dict[str, list[EncodedRows]] = {}
        for member in members:
            by_region.setdefault(member.region, []).append(member.train)
        together = {region: joined(parts) for region, parts in by_region.items()}
        most = max(len(rows) for rows in together.values())
        parts = []
        for rows in together.values():
            whole, rest = divmod(most, len(rows))
            parts += [rows] * whole
            if rest:
                # Evenly spaced, so that every client and task is repeated alike.
                places = [at * len(rows) // rest for at in range(rest)]
                parts.append(picked(rows, places))
        return joined(parts)
