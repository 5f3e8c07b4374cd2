"""pFedMe: personal models as Moreau envelopes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from regionfed.bench.population import Member
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import Averaging
from regionfed.config.base import Section
from regionfed.method.exact import ExactMean
from regionfed.method.vectors import Vector
from regionfed.training.batches import steps_of
from regionfed.training.hooks import StepHooks


class PFedMeOptions(Section):
    """Parameters of pFedMe."""

    strength: float = Field(default=15.0, ge=0, description="lambda, the pull of w on theta_i.")
    inner: int = Field(default=4, ge=1, description="K, inner steps per local iteration.")
    rate: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="eta*lambda: the share of the way from w_i to theta_i per local iteration.",
    )
    learning_rate: float | None = Field(
        default=None, gt=0, description="Step of the inner solver; absent: the federation's."
    )
    beta: float = Field(default=1.0, gt=0, description="Server step towards the mean of the w_i.")


class PFedMe(Averaging):
    """Client i solves theta_i = argmin f_i(theta) + lambda/2*||theta - w_i||^2 and moves w_i to it.

    As published: R local iterations of K inner steps, w_i <- w_i - eta*lambda*(w_i - theta_i), the
    server mixes the mean of the w_i in with beta. Ours differs in that an inner step uses the
    configured optimizer and a batch of its own (the paper keeps one batch for its K steps), so that
    R*K equals the other systems' local steps. Served is theta_i solved from the final w.
    """

    name: ClassVar[str] = "pfedme"
    label: ClassVar[str] = "pFedMe"
    paper: ClassVar[str] = (
        "Dinh et al., Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020"
    )
    own_level: ClassVar[str] = "client"
    options_type: ClassVar[type[Section]] = PFedMeOptions
    options: PFedMeOptions

    def round(self, number: int) -> None:
        """R local iterations on every client, then w."""
        federation = self.federation
        mean = ExactMean(federation.size)
        clients = 0
        for region in federation.population.regions:
            for member in federation.cohort(region, number):
                _, moved = self.solve(member, number=number)
                mean.add(self.theta - moved, member.examples)
                clients += 1
        self.theta = self.theta - np.float32(self.options.beta) * mean.mean()
        self.cost.add(clients)

    def solve(self, member: Member, *, number: int, salt: str = "") -> tuple[Vector, Vector]:
        """theta_i and w_i after R local iterations from w."""
        training = self.federation.training
        iterations = max(1, steps_of(member.examples, training) // self.options.inner)
        inner = training.model_copy(
            update={
                "steps": self.options.inner,
                "epochs": None,
                "learning_rate": self.options.learning_rate or training.learning_rate,
            }
        )
        anchor, theta_i = self.theta, self.theta
        for iteration in range(iterations):
            result = self.federation.train(
                member,
                start=theta_i,
                number=number,
                salt=(salt, f"inner{iteration}"),
                training=inner,
                hooks=StepHooks(proximal=self.options.strength, anchor=anchor),
            )
            theta_i = theta_i - result.update
            anchor = anchor - np.float32(self.options.rate) * (anchor - theta_i)
        return theta_i, anchor

    def served(self, number: int, *, final: bool) -> Served:
        """w until the end, then every client's own theta_i."""
        theta = self.theta
        if not final:
            return Served(regional=lambda region: theta)
        return Served(
            regional=lambda region: theta,
            personal=lambda member: self.solve(member, number=number, salt="final")[0],
        )
