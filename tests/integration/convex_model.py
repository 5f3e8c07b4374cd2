"""Linear regression as a user's own model: small, convex, and easy to compute by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from regionfed.data.types import Row
from regionfed.models.base import EncodedRows, FederatedModel
from regionfed.models.config import ModelConfig
from regionfed.tasks.spec import TaskSpec

WIDTH = 6
STEP_SECONDS = 35.0
"""What a step of the slow model takes."""


class Regression(FederatedModel):
    """y = w*x from a text of numbers, with half the squared error as its loss."""

    def __init__(self) -> None:
        self.module = nn.Linear(WIDTH, 1, bias=False)
        with torch.no_grad():
            self.module.weight.copy_(torch.linspace(-1, 1, WIDTH)[None])

    def encode(self, rows: Sequence[Row]) -> EncodedRows:
        inputs = [[float(value) for value in row.text.split()] for row in rows]
        targets = [float(row.target) for row in rows]
        return EncodedRows(
            tensors={"x": torch.tensor(inputs).reshape(-1, WIDTH), "y": torch.tensor(targets)},
            rows=rows,
        )

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        error: Tensor = self.module(batch["x"])[:, 0] - batch["y"]
        return 0.5 * (error**2).mean()

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        return [f"{value:.1f}" for value in self.module(batch["x"])[:, 0].tolist()]


def regression(config: ModelConfig, tasks: tuple[TaskSpec, ...]) -> Regression:
    return Regression()


class SlowRegression(Regression):
    """The same, whose training takes long."""

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        if torch.is_grad_enabled():
            time.sleep(STEP_SECONDS)
        return super().loss(batch)


def slow_regression(config: ModelConfig, tasks: tuple[TaskSpec, ...]) -> SlowRegression:
    return SlowRegression()
