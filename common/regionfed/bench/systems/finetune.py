"""Local fine-tuning of a federated model."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from regionfed.bench.population import Member
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import Averaging, TunedByRegion
from regionfed.config.base import Section
from regionfed.method.vectors import Vector


class FinetuneOptions(Section):
    """How a client tunes."""

    steps: int = Field(default=20, ge=1, description="Local steps after the last round.")
    learning_rate: float = Field(default=1e-3, gt=0, description="Their step size.")


class FinetuneRegionOptions(Section):
    """How a region tunes."""

    rounds: int = Field(default=3, ge=1, description="Last rounds that stay inside the region.")


class Finetune(Averaging):
    """FedAvg, then each client trains the final model on its own rows and serves itself.

    As published; nothing that is tuned is sent.
    """

    name: ClassVar[str] = "finetune"
    label: ClassVar[str] = "Local fine-tuning"
    paper: ClassVar[str] = (
        "Wang et al., Federated Evaluation of On-device Personalization, 2019 (FedAvg + tuning)"
    )
    own_level: ClassVar[str] = "client"
    options_type: ClassVar[type[Section]] = FinetuneOptions
    options: FinetuneOptions

    def served(self, number: int, *, final: bool) -> Served:
        """theta until the end, then the tuned models."""
        if not final:
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
                member, start=theta, number=number, salt=("finetune",), training=training
            )
            return theta - result.update

        return Served(regional=lambda region: theta, personal=personal)


class FinetuneRegion(TunedByRegion):
    """FedAvg whose last rounds stay inside each region.

    Ours: the personal model is kept per region, which is what RegionFed has to beat.
    """

    name: ClassVar[str] = "finetune-region"
    label: ClassVar[str] = "Fine-tuning per region"
    paper: ClassVar[str] = Finetune.paper
    own_level: ClassVar[str] = "region"
    options_type: ClassVar[type[Section]] = FinetuneRegionOptions
    options: FinetuneRegionOptions

    @property
    def regional_rounds(self) -> int:
        """As the options say."""
        return self.options.rounds
