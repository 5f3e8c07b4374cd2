"""FedTP: personal attention from a hypernetwork."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from regionfed.bench.federation import Federation
from regionfed.bench.population import Member
from regionfed.bench.scoring import Served
from regionfed.bench.systems.base import System
from regionfed.bench.systems.parts import attention_mask
from regionfed.config.base import Section
from regionfed.method.exact import ExactMean
from regionfed.method.vectors import Vector
from regionfed.training.seeds import derive_seed


class FedTpOptions(Section):
    """Parameters of the hypernetwork."""

    embedding: int = Field(default=8, ge=1, description="Length k of a client's embedding.")
    learning_rate: float = Field(default=0.5, gt=0, description="Step of embedding and M.")


class FedTp(System):
    """The server generates each client's attention weights from an embedding; the rest is FedAvg.

    Client i gets attention W_i = B + M z_i. As in the paper the client's displacement of W_i is
    taken as the gradient and goes through the chain rule into B, M and z_i. Ours differs in the
    hypernetwork, which is linear in z_i (the paper: an MLP trunk with one linear head per layer,
    which for a model of d parameters would itself hold many times d), and in starting at M = 0,
    so that every client begins with the common initial weights. Without attention (CNN) the head
    takes its place.
    """

    name: ClassVar[str] = "fedtp"
    label: ClassVar[str] = "FedTP"
    paper: ClassVar[str] = (
        "Li et al., FedTP: Federated Learning by Transformer Personalization, IEEE TNNLS 2023"
    )
    own_level: ClassVar[str] = "client"
    options_type: ClassVar[type[Section]] = FedTpOptions
    options: FedTpOptions

    def __init__(self, federation: Federation, options: Section | None = None) -> None:
        super().__init__(federation, options)
        population = federation.population
        self.theta: Vector = population.initial
        self.places = np.flatnonzero(attention_mask(population))
        k = self.options.embedding
        self.matrix = np.zeros((len(self.places), k), np.float32)
        self.embeddings = {
            (member.region, member.client): _embedding(federation, member, size=k)
            for member in population.everyone()
        }

    def personal(self, member: Member) -> Vector:
        """theta with the client's generated attention weights."""
        vector = self.theta.copy()
        vector[self.places] += self.matrix @ self.embeddings[member.region, member.client]
        return vector

    def round(self, number: int) -> None:
        """Every client trains its own model; the common part and the hypernetwork follow."""
        population = self.federation.population
        mean = ExactMean(self.federation.size)
        moved = np.zeros_like(self.matrix)
        steps: dict[tuple[str, str], Vector] = {}
        clients = 0
        for region in population.regions:
            for member in self.federation.cohort(region, number):
                result = self.federation.train(member, start=self.personal(member), number=number)
                mean.add(result.update, member.examples)
                key = (member.region, member.client)
                attention = result.update[self.places]
                moved += np.outer(attention, self.embeddings[key])
                steps[key] = self.matrix.T @ attention
                clients += 1
        self.theta = self.theta - mean.mean()
        rate = np.float32(self.options.learning_rate)
        self.matrix -= rate * moved / np.float32(clients)
        for key, step in steps.items():
            self.embeddings[key] = self.embeddings[key] - rate * step
        self.cost.add(clients)

    def served(self, number: int, *, final: bool) -> Served:
        """Every client's own model."""
        del number, final
        theta = self.theta
        return Served(regional=lambda region: theta, personal=self.personal)


def _embedding(federation: Federation, member: Member, *, size: int) -> Vector:
    seed = derive_seed("embedding", federation.config.run.seed, member.region, member.client)
    drawn = np.random.default_rng(seed).normal(size=size) / np.sqrt(size)
    return drawn.astype(np.float32)
