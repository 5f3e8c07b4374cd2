"""Many small clients trained in one pass: one stacked tensor of weights, one row per client.

On a CPU this pays only where a step is dominated by the cost of launching operations (heads on
frozen features, the tiny presets); matrix products of the small T5 already fill a core. See
`docs/models.md` for measurements. `choose_mode` decides accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from regionfed.errors import UpdateError
from regionfed.models.base import EncodedRows, FederatedModel, RowwiseModel
from regionfed.models.flat import FlatLayout, FlatModel, checked
from regionfed.models.padding import PaddedRows
from regionfed.training.batches import plan_steps
from regionfed.training.config import TrainingConfig
from regionfed.training.device import execution, forward_context, mixed_type, release_memory
from regionfed.training.local import LocalResult, local_train
from regionfed.training.optimizer import make_optimizer

Mode = Literal["auto", "stacked", "one-by-one"]

CPU_STACKED_LIMIT = 100_000
"""Largest d for which stacking clients was measured to be faster on a CPU."""


def can_stack(model: FederatedModel, flat: FlatModel, config: TrainingConfig) -> bool:
    """Whether clients of this model can be stacked with results equal to `local_train`'s.

    Not with BatchNorm (its statistics are per client and batch), dropout (another random stream),
    float16 (a loss scale per client), or a model whose loss is not a mean of row losses.
    """
    dropout = any(isinstance(p, nn.Dropout) and p.p > 0 for p in model.module.modules())
    return (
        isinstance(model, RowwiseModel)
        and not dropout
        and flat.buffer_layout.size == 0
        and mixed_type(config, flat.device) is not torch.float16
    )


def choose_mode(
    model: FederatedModel, flat: FlatModel, config: TrainingConfig
) -> Literal["stacked", "one-by-one"]:
    """The faster of the two ways on this device, as far as measured."""
    small = flat.device.type == "cuda" or flat.layout.size <= CPU_STACKED_LIMIT
    return "stacked" if small and can_stack(model, flat, config) else "one-by-one"


def batched_train(
    model: FederatedModel,
    flat: FlatModel,
    data: Sequence[EncodedRows],
    config: TrainingConfig,
    *,
    seeds: Sequence[int],
    starts: NDArray[np.float32],
    mode: Mode = "auto",
) -> list[LocalResult]:
    """Local training of K clients; the same as K calls of `local_train` up to rounding.

    `starts` is (d,) for one start shared by all, or (K, d). `mode` 'auto' takes `choose_mode`.
    Stacked clients need memory for K vectors, gradients and optimizer states.

    Raises `UpdateError` for starts that do not fit or when 'stacked' is asked of a model that
    cannot be stacked, and what `local_train` raises.
    """
    count = len(data)
    if starts.ndim == 1:
        checked(starts, size=flat.layout.size, what="the start of the clients")
    elif starts.shape != (count, flat.layout.size):
        raise UpdateError(
            f"the starts have shape {starts.shape}, but {count} clients of this model need "
            f"({count}, {flat.layout.size})"
        )
    else:
        checked(starts.reshape(-1), size=starts.size, what="the starts of the clients")
    chosen = choose_mode(model, flat, config) if mode == "auto" else mode
    if chosen == "one-by-one":
        return [
            local_train(
                model,
                flat,
                rows,
                config,
                seed=seed,
                start=starts if starts.ndim == 1 else np.ascontiguousarray(starts[place]),
            )
            for place, (rows, seed) in enumerate(zip(data, seeds, strict=True))
        ]
    if not isinstance(model, RowwiseModel) or not can_stack(model, flat, config):
        raise UpdateError(
            "clients of this model cannot be stacked (BatchNorm, dropout, float16, or a loss that "
            "is not a mean of row losses); use mode = 'one-by-one'"
        )
    return _stacked(model, flat, data, config, seeds=seeds, starts=starts)


class _RowLosses(nn.Module):
    """The model's row losses as a forward pass, as `functional_call` needs it."""

    def __init__(self, model: RowwiseModel) -> None:
        super().__init__()
        self.inner = model.module
        self._losses = model.row_losses

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        return self._losses(batch)


def _stacked(
    model: RowwiseModel,
    flat: FlatModel,
    data: Sequence[EncodedRows],
    config: TrainingConfig,
    *,
    seeds: Sequence[int],
    starts: NDArray[np.float32],
) -> list[LocalResult]:
    device = flat.device
    plans = [plan_steps(len(rows), config, seed=s) for rows, s in zip(data, seeds, strict=True)]
    # Clients with more steps first: those still at work are then always a leading block.
    order = sorted(range(len(data)), key=lambda place: -len(plans[place]))
    begin = torch.from_numpy(np.broadcast_to(starts, (len(data), flat.layout.size))[order])
    begin = begin.to(device)
    weights = nn.Parameter(begin.clone())
    weights.grad = torch.zeros_like(weights)
    optimizer = make_optimizer(weights, config)
    step_gradient = _step_function(model, flat.layout)
    dtype = mixed_type(config, device)
    losses = torch.zeros(len(data), dtype=torch.float64, device=device)
    model.module.train()
    # Fused attention has no rule for stacked weights on a CPU and would run client by client.
    with execution(config, device), sdpa_kernel(SDPBackend.MATH):
        for step in range(len(plans[order[0]])):
            active = [place for place in order if len(plans[place]) > step]
            live = len(active)
            sizes = [sum(len(index) for index in plans[place][step]) for place in active]
            rows = torch.tensor(sizes, dtype=torch.float32, device=device)
            finished = weights.detach()[live:].clone()
            gradient = weights.grad.zero_()[:live]
            for part in range(max(len(plans[place][step]) for place in active)):
                batch, weight = _stack(
                    [(data[place], _part(plans[place][step], part)) for place in active],
                    size=config.batch_size,
                    device=device,
                )
                with forward_context(dtype, device):
                    slopes, values = step_gradient(
                        weights.detach()[:live], batch, weight / rows[:, None]
                    )
                gradient += slopes
                losses[:live] += values.double() * rows
            if config.clip_gradient is not None:
                norms = torch.linalg.vector_norm(gradient, dim=1, dtype=torch.float64)
                limit = config.clip_gradient
                gradient *= (limit / norms.clamp(min=limit)).float()[:, None]
            optimizer.step()
            # Momentum would carry finished clients on.
            weights.data[live:] = finished
        updates = (begin - weights.detach()).cpu().numpy()
    model.module.eval()
    results: list[LocalResult | None] = [None] * len(data)
    totals = losses.tolist()
    for row, place in enumerate(order):
        seen = sum(len(index) for batches in plans[place] for index in batches)
        if not np.isfinite(totals[row]):
            raise UpdateError(
                f"the training loss of client {place} of this batch is not finite; lower "
                "training.learning_rate or set training.clip_gradient"
            )
        results[place] = LocalResult(
            update=updates[row],
            buffers=np.empty(0, dtype=np.float32),
            examples=len(data[place]),
            steps=len(plans[place]),
            loss=totals[row] / seen,
        )
    release_memory(device)
    return [result for result in results if result is not None]


def _step_function(
    model: RowwiseModel, layout: FlatLayout
) -> Callable[[Tensor, Mapping[str, Tensor], Tensor], tuple[Tensor, Tensor]]:
    """Gradients (K, d) and losses (K,) at weights (K, d), for one batch and row weights each."""
    inner = _RowLosses(model)
    lengths = layout.lengths

    def loss_of(vector: Tensor, batch: Mapping[str, Tensor], weight: Tensor) -> Tensor:
        # One split, so that the gradient comes back as one concatenation.
        pieces = torch.split(vector, lengths)
        named = {
            f"inner.{name}": piece.view(shape)
            for name, piece, shape in zip(layout.names, pieces, layout.shapes, strict=True)
        }
        losses: Tensor = functional_call(inner, named, (batch,), tie_weights=True)
        return (losses * weight).sum()

    function: Callable[[Tensor, Mapping[str, Tensor], Tensor], tuple[Tensor, Tensor]] = vmap(
        grad_and_value(loss_of)
    )
    return function


def _part(batches: Sequence[Tensor], part: int) -> Tensor:
    return batches[part] if part < len(batches) else torch.zeros(0, dtype=torch.int64)


def _stack(
    parts: Sequence[tuple[EncodedRows, Tensor]], *, size: int, device: torch.device
) -> tuple[dict[str, Tensor], Tensor]:
    """One (K, size, ...) batch, and (K, size) weights: 1 for a row, 0 for filling.

    A short batch is filled with its client's first row, which keeps every row well formed.
    """
    cpu = torch.device("cpu")
    weights = torch.zeros(len(parts), size)
    batches: list[dict[str, Tensor]] = []
    for place, (rows, index) in enumerate(parts):
        weights[place, : len(index)] = 1.0
        filling = torch.zeros(size - len(index), dtype=torch.int64)
        batches.append(rows.batch(torch.cat([index, filling]), cpu))
    fillers = parts[0][0].fillers if isinstance(parts[0][0], PaddedRows) else {}
    stacked = {
        name: _same_width([batch[name] for batch in batches], filler=fillers.get(name, 0))
        for name in batches[0]
    }
    return {name: tensor.to(device) for name, tensor in stacked.items()}, weights.to(device)


def _same_width(tensors: Sequence[Tensor], *, filler: int) -> Tensor:
    """Stack (rows, width, ...) tensors of different width, the narrower ones padded."""
    if tensors[0].dim() == 1 or len({tensor.shape[1] for tensor in tensors}) == 1:
        return torch.stack(list(tensors))
    rows, _, *rest = tensors[0].shape
    widest = max(tensor.shape[1] for tensor in tensors)
    out = tensors[0].new_full((len(tensors), rows, widest, *rest), filler)
    for place, tensor in enumerate(tensors):
        out[place, :, : tensor.shape[1]] = tensor
    return out
