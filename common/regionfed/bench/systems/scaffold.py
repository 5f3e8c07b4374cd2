"""SCAFFOLD: control variates against client drift."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from regionfed.bench.federation import Federation
from regionfed.bench.population import Member
from regionfed.bench.rows import picked
from regionfed.bench.systems.base import Averaging
from regionfed.config.base import Section
from regionfed.method.exact import ExactMean
from regionfed.method.vectors import Vector
from regionfed.training.batches import steps_of
from regionfed.training.gradient import mean_gradient
from regionfed.training.hooks import StepHooks


class ScaffoldOptions(Section):
    """Parameters of SCAFFOLD."""

    control: Literal["auto", "gradient", "updates"] = Field(
        default="auto",
        description="How c_i is renewed: the gradient at theta_t (option I of the paper) or the "
        "displacement over K*eta (option II). 'auto': II with plain SGD, else I, because only "
        "with SGD is a displacement a sum of gradients.",
    )


class Scaffold(Averaging):
    """Every local step is corrected by c - c_i; c follows the mean of the c_i.

    As published, global step size 1. The mean of all c_i equals c at all times. With Adam on the
    client (ours) the correction is added to the gradient before Adam sees it, and c_i is the
    gradient at theta_t over as many rows as a round of training uses.
    """

    name: ClassVar[str] = "scaffold"
    label: ClassVar[str] = "SCAFFOLD"
    paper: ClassVar[str] = (
        "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, "
        "ICML 2020"
    )
    options_type: ClassVar[type[Section]] = ScaffoldOptions
    options: ScaffoldOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        self.common: Vector = np.zeros(federation.size, np.float32)
        self.own: dict[tuple[str, str], Vector] = {}
        self.members = len(federation.population.everyone())
        training = federation.training
        plain = training.optimizer == "sgd" and training.momentum == 0
        chosen = self.options.control
        self.by_gradient = chosen == "gradient" or (chosen == "auto" and not plain)

    def round(self, number: int) -> None:
        """Corrected training everywhere, then the server's theta and c."""
        federation = self.federation
        mean, change = ExactMean(federation.size), ExactMean(federation.size)
        clients = 0
        for region in federation.population.regions:
            cohort = federation.cohort(region, number)
            regional = ExactMean(federation.size)
            for member in cohort:
                update, moved = self._train(member, number)
                regional.add(update, member.examples)
                change.add(moved)
                clients += 1
            mean.add(regional.mean(), sum(member.examples for member in cohort))
        self.theta, self.state = self.optimizer.step(self.theta, mean.mean(), self.state)
        self.common = self.common + change.mean() * np.float32(clients / self.members)
        self.cost.add(clients, down=2, up=2)

    def _train(self, member: Member, number: int) -> tuple[Vector, Vector]:
        """The client's update and the change of its control variate."""
        key = (member.region, member.client)
        before = self.own.get(key)
        correction = self.common if before is None else self.common - before
        result = self.federation.train(
            member, start=self.theta, number=number, hooks=StepHooks(correction=correction)
        )
        if self.by_gradient:
            after = self._gradient(member, number)
        else:
            length = result.steps * self.federation.training.learning_rate
            after = result.update / np.float32(length) - correction
        self.own[key] = after
        return result.update, after if before is None else after - before

    def _gradient(self, member: Member, number: int) -> Vector:
        """The client's gradient at theta_t, over at most the rows that a round of training sees."""
        training = self.federation.training
        rows = steps_of(member.examples, training) * training.accumulation * training.batch_size
        data = member.train
        if rows < len(data):
            seed = self.federation.seed(member, number, "control")
            places = np.random.default_rng(seed).choice(len(data), size=rows, replace=False)
            data = picked(data, sorted(int(place) for place in places))
        population = self.federation.population
        wide = training.model_copy(update={"batch_size": training.evaluation_batch_size})
        return mean_gradient(population.model, population.flat, data, wide, at=self.theta).gradient
