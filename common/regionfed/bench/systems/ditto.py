"""Ditto: a personal model tied to the global one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from regionfed.bench.federation import Federation
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import Averaging
from regionfed.config.base import Section
from regionfed.method.vectors import Vector
from regionfed.training.hooks import StepHooks


class DittoOptions(Section):
    """Parameters of Ditto."""

    strength: float = Field(
        default=0.1, ge=0, description="lambda, the pull of theta_t on the personal model."
    )


class Ditto(Averaging):
    """FedAvg, and beside it a personal v_i with lambda/2*||v_i - theta_t||^2 in its loss.

    As published: a client that is asked trains both in the same round, v_i from where it was. A
    client that was never asked serves theta. With lambda = 0 v_i is local training.
    """

    name: ClassVar[str] = "ditto"
    label: ClassVar[str] = "Ditto"
    paper: ClassVar[str] = (
        "Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021"
    )
    own_level: ClassVar[str] = "client"
    options_type: ClassVar[type[Section]] = DittoOptions
    options: DittoOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.own: dict[tuple[str, str], Vector] = {}

    def round(self, number: int) -> None:
        """The personal models against theta_t, then theta."""
        hooks = self._pull()
        for region in self.federation.population.regions:
            for member in self.federation.cohort(region, number):
                start = self.own.get(
                    (member.region, member.client), self.federation.population.initial
                )
                result = self.federation.train(
                    member, start=start, number=number, salt=("personal",), hooks=hooks
                )
                self.own[member.region, member.client] = start - result.update
        super().round(number)

    def _pull(self) -> StepHooks | None:
        if self.options.strength == 0:
            return None
        return StepHooks(proximal=self.options.strength, anchor=self.theta)

    def served(self, number: int, *, final: bool) -> Served:
        """Every client's v_i."""
        del number, final
        theta = self.theta
        own = dict(self.own)
        return Served(
            regional=lambda region: theta,
            personal=lambda member: own.get((member.region, member.client), theta),
        )


class DittoRegion(Averaging):
    """Ditto with one v per region, trained by FedAvg within the region under the same pull (ours).

    It costs a second model per client and round in each direction.
    """

    name: ClassVar[str] = "ditto-region"
    label: ClassVar[str] = "Ditto per region"
    paper: ClassVar[str] = Ditto.paper
    own_level: ClassVar[str] = "region"
    options_type: ClassVar[type[Section]] = DittoOptions
    options: DittoOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        initial = federation.population.initial
        self.own: dict[str, Vector] = dict.fromkeys(federation.population.regions, initial)

    def round(self, number: int) -> None:
        """The regions' models against theta_t, then theta."""
        strength = self.options.strength
        hooks = StepHooks(proximal=strength, anchor=self.theta) if strength else None
        for region, start in self.own.items():
            found = self.federation.regional_mean(
                region,
                start=start,
                number=number,
                by_examples=True,
                salt=("personal",),
                hooks=None if hooks is None else lambda member: hooks,
            )
            self.own[region] = np.subtract(start, found.update)
            self.cost.add(found.clients, exchanges=0)
        super().round(number)

    def served(self, number: int, *, final: bool) -> Served:
        """Every region's v."""
        del number, final
        own = dict(self.own)
        return Served(regional=lambda region: own[region])
