"""Losses and scores of a model where it stands, or along a direction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regionfed.models.base import EncodedRows, FederatedModel
from regionfed.models.flat import FlatModel, Vector, checked
from regionfed.tasks import metrics
from regionfed.tasks.spec import TaskSpec
from regionfed.training.batches import in_order
from regionfed.training.config import TrainingConfig
from regionfed.training.device import execution, forward_context, mixed_type


def mean_loss(
    model: FederatedModel, flat: FlatModel, data: EncodedRows, config: TrainingConfig
) -> tuple[float, int]:
    """Sum of the row losses and the number of rows, so that results of clients add up."""
    total = 0.0
    dtype = mixed_type(config, flat.device)
    model.module.eval()
    with execution(config, flat.device), torch.no_grad():
        for index in in_order(len(data), config.evaluation_batch_size):
            with forward_context(dtype, flat.device):
                loss = model.loss(data.batch(index, flat.device))
            total += float(loss) * len(index)
    return total, len(data)


def losses_at(
    model: FederatedModel,
    flat: FlatModel,
    data: EncodedRows,
    config: TrainingConfig,
    *,
    base: Vector,
    direction: Vector,
    rhos: Sequence[float],
) -> tuple[NDArray[np.float64], int]:
    """Sums of row losses at `base + rho*direction` for each rho, and the number of rows.

    For the search of rho (algorithm section 3.7). Points are written into the model itself, one
    after the other; at the end it stands at `base`. Raises `UpdateError` for vectors that do not
    fit.
    """
    size = flat.layout.size
    origin = flat.to_device(checked(base, size=size, what="the base of a search"))
    along = flat.to_device(checked(direction, size=size, what="the direction of a search"))
    sums = np.empty(len(rhos), dtype=np.float64)
    with torch.no_grad():
        for place, rho in enumerate(rhos):
            torch.add(origin, along, alpha=rho, out=flat.weights.data)
            sums[place], _ = mean_loss(model, flat, data, config)
        flat.weights.data.copy_(origin)
    return sums, len(data)


def predictions(
    model: FederatedModel, flat: FlatModel, data: EncodedRows, config: TrainingConfig
) -> list[str]:
    """One answer per row, in the order of the rows."""
    answers: list[str] = []
    dtype = mixed_type(config, flat.device)
    model.module.eval()
    with execution(config, flat.device), torch.no_grad():
        for index in in_order(len(data), config.evaluation_batch_size):
            with forward_context(dtype, flat.device):
                answers += model.predict(data.batch(index, flat.device))
    return answers


def counts(
    model: FederatedModel,
    flat: FlatModel,
    data: EncodedRows,
    config: TrainingConfig,
    *,
    tasks: Sequence[TaskSpec],
) -> dict[str, float]:
    """Additive counts of all tasks over the rows, as `tasks.metrics.score` takes them."""
    answers = predictions(model, flat, data, config)
    parts = []
    for task in tasks:
        places = [place for place, row in enumerate(data.rows) if row.task == task.name]
        if places:
            parts.append(
                metrics.count(
                    task, [answers[place] for place in places], [data.rows[p] for p in places]
                )
            )
    return metrics.add(parts)
