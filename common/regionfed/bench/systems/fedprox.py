"""FedProx."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from regionfed.bench.population import Member
from regionfed.bench.systems.base import Averaging
from regionfed.config.base import Section
from regionfed.training.hooks import StepHooks


class FedProxOptions(Section):
    """Parameters of FedProx."""

    mu: float = Field(default=0.01, ge=0, description="Weight of the proximal term.")


class FedProx(Averaging):
    """FedAvg with mu/2*||w - theta_t||^2 added to every client's loss.

    As published, at full participation of the asked clients (no partial work). With mu = 0 it is
    FedAvg bit for bit.
    """

    name: ClassVar[str] = "fedprox"
    label: ClassVar[str] = "FedProx"
    paper: ClassVar[str] = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"
    options_type: ClassVar[type[Section]] = FedProxOptions
    options: FedProxOptions

    def hooks(self, member: Member) -> StepHooks | None:
        """The pull towards theta_t."""
        del member
        return StepHooks(proximal=self.options.mu)

    @property
    def plain(self) -> bool:
        """Without a pull, clients train as in FedAvg."""
        return self.options.mu == 0
