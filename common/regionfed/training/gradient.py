"""Gradients of a client's mean loss at a given point."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from regionfed.errors import DataError, UpdateError
from regionfed.models.base import EncodedRows, FederatedModel
from regionfed.models.flat import FlatModel, Vector
from regionfed.training.batches import in_order
from regionfed.training.config import TrainingConfig
from regionfed.training.device import execution, forward_context, mixed_type, release_memory
from regionfed.training.local import local_train


@dataclass(frozen=True, slots=True)
class GradientResult:
    """`gradient` (d,) float32 points uphill (algorithm section 2); `loss` is the mean loss there."""

    gradient: Vector
    loss: float
    examples: int


def mean_gradient(
    model: FederatedModel,
    flat: FlatModel,
    data: EncodedRows,
    config: TrainingConfig,
    *,
    at: Vector | None = None,
) -> GradientResult:
    """Gradient of the mean loss over all rows, at `at` or where the model stands.

    In evaluation mode (no dropout, BatchNorm with its running statistics): the function that is
    served. The model is left at `at`. Raises `DataError` for no rows and `UpdateError` when `at`
    does not fit or the result is not finite.
    """
    if not len(data):
        raise DataError("a gradient over no rows was asked for; leave this client out")
    if at is not None:
        flat.write(at)
    dtype = mixed_type(config, flat.device)
    scale = 1024.0 if dtype is torch.float16 else 1.0
    gradient = flat.open_gradient()
    total = 0.0
    model.module.eval()
    with execution(config, flat.device):
        for index in in_order(len(data), config.batch_size):
            batch = data.batch(index, flat.device)
            with forward_context(dtype, flat.device):
                loss = model.loss(batch)
            torch.autograd.backward(loss * (len(index) / len(data) * scale))
            total += float(loss.detach()) * len(index)
        # Not a view of the model's memory: the gradient is closed right after.
        array: Vector = (gradient / scale).cpu().numpy()
    flat.close_gradient()
    release_memory(flat.device)
    if not math.isfinite(float(array.sum(dtype="float64"))):
        raise UpdateError(
            "the gradient is not finite at this point; the model has diverged: lower "
            "training.learning_rate or set training.clip_gradient"
        )
    return GradientResult(gradient=array, loss=total / len(data), examples=len(data))


def multi_step_gradient(
    model: FederatedModel,
    flat: FlatModel,
    data: EncodedRows,
    config: TrainingConfig,
    *,
    at: Vector,
    steps: int,
    seed: int,
) -> GradientResult:
    """Sum of the gradients along `steps` plain SGD steps from `at`: displacement over step size.

    For Meta with more than one step (algorithm section 3.6). With `steps` = 1 it is
    `mean_gradient` over all rows; with more, each step takes one shuffled batch. Its scale grows
    with `steps`, as a displacement does.
    """
    if steps == 1:
        return mean_gradient(model, flat, data, config, at=at)
    plain = _plain_sgd(config, steps=steps)
    result = local_train(model, flat, data, plain, seed=seed, start=at)
    gradient = result.update / plain.learning_rate
    return GradientResult(gradient=gradient, loss=result.loss, examples=result.examples)


def _plain_sgd(config: TrainingConfig, *, steps: int) -> TrainingConfig:
    # Accumulation, clipping and precision stay as configured.
    changed = {
        "optimizer": "sgd",
        "momentum": 0.0,
        "weight_decay": 0.0,
        "epochs": None,
        "steps": steps,
    }
    return config.model_copy(update=changed)
