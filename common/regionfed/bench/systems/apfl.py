"""APFL: a mixture of a local and the global model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from regionfed.bench.federation import Federation
from regionfed.bench.population import Member
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import Averaging
from regionfed.config.base import Section
from regionfed.method.vectors import Vector, combine, dot

_LOWEST = 1e-3
"""Below this share the local part no longer counts, and its step would be divided by nothing."""


class ApflOptions(Section):
    """Parameters of APFL."""

    alpha: float = Field(default=0.5, ge=0, le=1, description="First share of the local model.")
    alpha_rate: float = Field(
        default=0.0, ge=0, description="Step of the share's own descent; 0 keeps it fixed."
    )


class Apfl(Averaging):
    """Client i serves alpha_i*v_i + (1 - alpha_i)*theta; v_i descends the mixture's loss.

    As published, v_i moves by alpha_i times the gradient at the mixture. Ours differs in that theta
    stands still while v_i moves (the paper interleaves their steps): the mixture is trained with
    its step size times alpha (alpha^2 under SGD), which moves v_i exactly so. With `alpha_rate`
    the share follows <v_i - theta, change of the mixture> as in the paper. With alpha = 0 it is
    the global model.
    """

    name: ClassVar[str] = "apfl"
    label: ClassVar[str] = "APFL"
    paper: ClassVar[str] = "Deng et al., Adaptive Personalized Federated Learning, 2020"
    own_level: ClassVar[str] = "client"
    options_type: ClassVar[type[Section]] = ApflOptions
    options: ApflOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.own: dict[tuple[str, str], Vector] = {}
        self.alphas: dict[tuple[str, str], float] = {}

    def round(self, number: int) -> None:
        """The local parts at theta_t, then theta."""
        for region in self.federation.population.regions:
            for member in self.federation.cohort(region, number):
                self._train(member, number)
        super().round(number)

    def _train(self, member: Member, number: int) -> None:
        key = (member.region, member.client)
        alpha = self.alphas.get(key, self.options.alpha)
        if alpha < _LOWEST:
            return
        training = self.federation.training
        power = 2 if training.optimizer == "sgd" else 1
        slower = training.model_copy(
            update={"learning_rate": training.learning_rate * alpha**power}
        )
        own = self.own.get(key, self.federation.population.initial)
        result = self.federation.train(
            member,
            start=self._mixture(own, alpha),
            number=number,
            salt=("local",),
            training=slower,
        )
        if self.options.alpha_rate:
            # start minus end stands for the gradient at the mixture, up to its positive scale.
            slope = dot(combine(own, self.theta, scale_b=-1.0), result.update)
            moved = alpha - self.options.alpha_rate * slope
            self.alphas[key] = float(min(1.0, max(0.0, moved)))
        self.own[key] = own - result.update / np.float32(alpha)

    def _mixture(self, own: Vector, alpha: float) -> Vector:
        return combine(own, self.theta, scale_a=alpha, scale_b=1.0 - alpha)

    def served(self, number: int, *, final: bool) -> Served:
        """Every client's mixture; theta for a client that was never asked."""
        del number, final
        theta = self.theta

        def personal(member: Member) -> Vector:
            key = (member.region, member.client)
            alpha = self.alphas.get(key, self.options.alpha)
            if key not in self.own or alpha < _LOWEST:
                return theta
            return self._mixture(self.own[key], alpha)

        return Served(regional=lambda region: theta, personal=personal)
