"""FedBABU: only the body is federated, then everything is tuned."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regionfed.bench.federation import Federation
from regionfed.bench.population import Member
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import TunedByRegion
from regionfed.bench.systems.parts import head_mask
from regionfed.config.base import Section
from regionfed.method.vectors import Vector
from regionfed.training.hooks import StepHooks


class FedBabuOptions(Section):
    """Parameters of FedBABU's fine-tuning."""

    tune: Literal["all", "head"] = Field(default="all", description="What is tuned at the end.")
    steps: int = Field(default=20, ge=1, description="Local steps of a client (per client).")
    learning_rate: float = Field(default=1e-3, gt=0, description="Their step size (per client).")
    rounds: int = Field(
        default=3, ge=1, description="Last rounds that stay inside the region (per region)."
    )


class FedBabu(TunedByRegion):
    """The head keeps its random initial values while the body is federated; clients then tune.

    As published. Which parameters are the head is the model's to say (`bench.systems.parts`); the
    body alone travels.
    """

    name: ClassVar[str] = "fedbabu"
    label: ClassVar[str] = "FedBABU"
    paper: ClassVar[str] = (
        "Oh et al., FedBABU: Toward Enhanced Representation for Federated Image Classification, "
        "ICLR 2022"
    )
    own_level: ClassVar[str] = "client"
    options_type: ClassVar[type[Section]] = FedBabuOptions
    options: FedBabuOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.head: NDArray[np.bool_] = head_mask(federation.population)
        self._body = StepHooks(trained=~self.head)
        self._tuning = StepHooks(trained=self.head) if self.options.tune == "head" else None

    @property
    def regional_rounds(self) -> int:
        """None: every client tunes alone."""
        return 0

    def hooks(self, member: Member) -> StepHooks | None:
        """Only the body moves."""
        del member
        return self._body

    def tuning_hooks(self, member: Member) -> StepHooks | None:
        """Everything moves, or the head alone."""
        del member
        return self._tuning

    def round(self, number: int) -> None:
        """A round of FedAvg on the body; inside a region the whole model is tuned and travels."""
        down, up = self.cost.down, self.cost.up
        super().round(number)
        if number <= self.rounds - self.regional_rounds:
            share = 1.0 - float(self.head.mean())
            self.cost.down = down + (self.cost.down - down) * share
            self.cost.up = up + (self.cost.up - up) * share

    def served(self, number: int, *, final: bool) -> Served:
        """The federated body with its untrained head until the end, then the tuned models."""
        if not final or self.regional_rounds:
            return super().served(number, final=final)
        theta = self.theta
        training = self.federation.training.model_copy(
            update={
                "steps": self.options.steps,
                "epochs": None,
                "learning_rate": self.options.learning_rate,
            }
        )

        def personal(member: Member) -> Vector:
            result = self.federation.train(
                member,
                start=theta,
                number=number,
                salt=("finetune",),
                training=training,
                hooks=self._tuning,
            )
            return theta - result.update

        return Served(regional=lambda region: theta, personal=personal)


class FedBabuRegion(FedBabu):
    """FedBABU where a region's clients tune together in the last rounds (ours)."""

    name: ClassVar[str] = "fedbabu-region"
    label: ClassVar[str] = "FedBABU per region"
    own_level: ClassVar[str] = "region"

    @property
    def regional_rounds(self) -> int:
        """As the options say."""
        return self.options.rounds
