"""A client's training between receiving a model and sending its update."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regionfed.errors import UpdateError
from regionfed.models.base import EncodedRows, FederatedModel
from regionfed.models.flat import FlatModel, Vector
from regionfed.training.batches import plan_steps
from regionfed.training.config import TrainingConfig
from regionfed.training.device import execution, forward_context, mixed_type, release_memory
from regionfed.training.hooks import StepHooks, StepTerms
from regionfed.training.optimizer import make_optimizer


@dataclass(frozen=True, slots=True)
class LocalResult:
    """What local training gives.

    `update` (d,) float32 is start minus end, a pseudo-gradient (algorithm section 2); `buffers`
    (b,) are the floating-point buffers at the end; `examples` are the client's rows, `steps` the
    optimizer steps, `loss` the mean training loss over all rows seen, `mean_gradient` (d,) what
    `StepHooks.observe` asked for.
    """

    update: Vector
    buffers: Vector
    examples: int
    steps: int
    loss: float
    mean_gradient: Vector | None = None


def local_train(
    model: FederatedModel,
    flat: FlatModel,
    data: EncodedRows,
    config: TrainingConfig,
    *,
    seed: int,
    start: Vector | None = None,
    start_buffers: Vector | None = None,
    hooks: StepHooks | None = None,
) -> LocalResult:
    """Train on the client's rows with a fresh optimizer, and leave the model at its end point.

    `start` and `start_buffers` are written first; None starts from where the model stands. Equal
    inputs give bit-identical results on a CPU with equal `training.threads`.

    Raises `DataError` for no rows, `UpdateError` for a start that does not fit or a loss that is
    not finite, `ConfigError` for a precision the device does not have.
    """
    if start is not None:
        flat.write(start)
    if start_buffers is not None:
        flat.write_buffers(start_buffers)
    begin = flat.weights.detach().clone()
    terms = StepTerms(hooks, flat) if hooks is not None else None
    plan = plan_steps(len(data), config, seed=seed)
    dtype = mixed_type(config, flat.device)
    scaler = torch.amp.GradScaler(flat.device.type, enabled=dtype is torch.float16)
    optimizer = make_optimizer(flat.weights, config)
    gradient = flat.open_gradient()
    loss_sum = torch.zeros((), dtype=torch.float64, device=flat.device)
    seen = 0
    devices = [flat.device] if flat.device.type == "cuda" else []
    model.module.train()
    with execution(config, flat.device), torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        for batches in plan:
            gradient.zero_()
            rows = sum(len(index) for index in batches)
            for index in batches:
                batch = data.batch(index, flat.device)
                with forward_context(dtype, flat.device):
                    loss = model.loss(batch)
                torch.autograd.backward(scaler.scale(loss * (len(index) / rows)))
                loss_sum += loss.detach().double() * len(index)
            seen += rows
            if terms is not None or config.clip_gradient is not None:
                scaler.unscale_(optimizer)
                _shape_gradient(gradient, flat.weights.data, terms, limit=config.clip_gradient)
            scaler.step(optimizer)
            scaler.update()
            if terms is not None:
                terms.after_step(flat.weights.data)
        update: Vector = (begin - flat.weights.detach()).cpu().numpy()
    seen_gradient = terms.mean_gradient() if terms is not None else None
    flat.close_gradient()
    model.module.eval()
    del optimizer, gradient, begin, terms
    release_memory(flat.device)
    mean_loss = float(loss_sum) / seen
    if not math.isfinite(mean_loss):
        raise UpdateError(
            f"the training loss became {mean_loss} within {len(plan)} steps; lower "
            "training.learning_rate or set training.clip_gradient"
        )
    return LocalResult(
        update=update,
        buffers=flat.read_buffers(),
        examples=len(data),
        steps=len(plan),
        loss=mean_loss,
        mean_gradient=seen_gradient,
    )


def _shape_gradient(
    gradient: Tensor, weights: Tensor, terms: StepTerms | None, *, limit: float | None
) -> None:
    if terms is not None:
        terms.before_step(gradient, weights)
    if limit is not None:
        norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)
        gradient *= (limit / norm.clamp(min=limit)).float()
