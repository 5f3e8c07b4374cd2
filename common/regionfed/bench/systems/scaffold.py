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

    control: Literal["path", "gradient"] = Field(
        default="path",
        description="How c_i is renewed: the mean gradient of the round's local steps (option II "
        "of the paper) or the gradient at theta_t (option I).",
    )
    optimizer: Literal["configured", "sgd"] = Field(
        default="configured", description="The clients' optimizer; the paper's is plain SGD."
    )
    learning_rate: float | None = Field(
        default=None, gt=0, description="The clients' step size; absent: that of the federation."
    )


class Scaffold(Averaging):
    """Every local step is corrected by c - c_i; c follows the mean of the c_i.

    As published, global step size 1. The mean of all c_i equals c at all times. Option II is taken
    as the mean of the gradients that the local steps saw before correction, which under plain SGD
    is the paper's displacement over K*eta, and which Adam on the client (ours) does not distort;
    the correction is added to the gradient before Adam sees it.
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
        changed: dict[str, object] = {}
        if self.options.optimizer == "sgd":
            changed = {"optimizer": "sgd", "momentum": 0.0}
        if self.options.learning_rate is not None:
            changed["learning_rate"] = self.options.learning_rate
        self.training = federation.training.model_copy(update=changed)

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
        by_path = self.options.control == "path"
        result = self.federation.train(
            member,
            start=self.theta,
            number=number,
            training=self.training,
            hooks=StepHooks(correction=correction, observe=by_path),
        )
        after = result.mean_gradient if by_path else self._gradient(member, number)
        assert after is not None
        self.own[key] = after
        return result.update, after if before is None else after - before

    def _gradient(self, member: Member, number: int) -> Vector:
        """The client's gradient at theta_t, over at most the rows that a round of training sees."""
        training = self.training
        rows = steps_of(member.examples, training) * training.accumulation * training.batch_size
        data = member.train
        if rows < len(data):
            seed = self.federation.seed(member, number, "control")
            places = np.random.default_rng(seed).choice(len(data), size=rows, replace=False)
            data = picked(data, sorted(int(place) for place in places))
        population = self.federation.population
        wide = training.model_copy(update={"batch_size": training.evaluation_batch_size})
        return mean_gradient(population.model, population.flat, data, wide, at=self.theta).gradient
