"""Whether Opacus' gradient of one example really is that example's, found by trying it.

The validator goes by layer types. A layer of a good type that is called without the example
dimension (a table of relative positions, shared by all rows) gives a wrong gradient without a
word; so two rows are run once and each gradient is compared with the row's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from regionfed.data.types import Row
from regionfed.errors import ExampleLevelRefused
from regionfed.models.base import EncodedRows, FederatedModel, RowwiseModel
from regionfed.models.config import ModelConfig
from regionfed.privacy.example_level import (
    LayerRefusal,
    hooked,
    refuse,
    require_supported,
)
from regionfed.tasks.spec import TaskKind, TaskSpec

_TOLERANCE = 1e-3
_ROWS = 8
_SHARED = "it is used without an example dimension, so the gradient of one example cannot be told"
_TEXT = "a few words to try it"


def require_trainable(
    model: FederatedModel,
    config: ModelConfig,
    *,
    tasks: Sequence[TaskSpec],
    vocabulary: Callable[[], Iterable[str]],
) -> None:
    """Refuse a model that DP-SGD cannot train, before any client is asked.

    Made-up rows of every task are tried; a model of the user's own, whose rows have a form that
    is not known here, is tried by each client on its own rows. Raises ExampleLevelRefused.
    """
    if config.kind == "factory":
        require_rowwise(model)
        model.module.train()
        require_supported(model.module)
        model.module.eval()
        return
    words = [word for word, _ in zip(vocabulary(), range(6), strict=False)]
    rows = [
        _row(task, config, words=(words or _TEXT.split())[: count + 2], place=count)
        for task in tasks
        for count in range(2)
    ]
    probe(model, model.encode(rows))


def require_rowwise(model: FederatedModel) -> RowwiseModel:
    """The model, if its loss is a mean of row losses; raises ExampleLevelRefused."""
    if not isinstance(model, RowwiseModel):
        raise ExampleLevelRefused(
            f"example-level privacy cannot train a {type(model).__name__}: its loss is not "
            "declared to be a mean of row losses; derive it from "
            "regionfed.models.base.RowwiseModel"
        )
    return model


def probe(model: FederatedModel, rows: EncodedRows) -> None:
    """Compare Opacus' gradients of the first rows with each row's own; the model is unchanged.

    Raises ExampleLevelRefused naming every parameter for which they differ.
    """
    rowwise = require_rowwise(model)
    module = rowwise.module
    was_training = module.training
    module.train()
    require_supported(module)
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    parameters = [p for _, p in named]
    device = parameters[0].device
    count = min(len(rows), _ROWS)
    batch = rows.batch(torch.arange(count), device)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook is firing")

        def losses() -> Tensor:
            # Equal dropout each time.
            torch.manual_seed(0)
            return rowwise.row_losses(batch)

        with hooked(module):
            torch.autograd.backward(losses().mean())
            by_opacus = [getattr(p, "grad_sample", None) for p in parameters]
        fits = [g is None or g.shape[0] == count for g in by_opacus]
        for row in range(count):
            own = torch.autograd.grad(losses()[row], parameters, allow_unused=True)
            for place, gradient in enumerate(own):
                fits[place] = fits[place] and _same(by_opacus[place], gradient, row=row)
    module.train(was_training)
    module.zero_grad(set_to_none=True)
    refuse(
        [
            LayerRefusal(name, _SHARED, "freeze it, or train LoRA adapters or a head only")
            for (name, _), fit in zip(named, fits, strict=True)
            if not fit
        ]
    )


def _same(by_opacus: Tensor | None, own: Tensor | None, *, row: int) -> bool:
    """Whether Opacus' gradient of a row is the row's own, up to rounding."""
    if by_opacus is None:
        return own is None or not bool(own.any())
    found, scale = by_opacus[row], float(by_opacus.abs().max())
    apart = found if own is None else found - own
    return float(apart.abs().max()) <= _TOLERANCE * scale + 1e-7


def _row(task: TaskSpec, config: ModelConfig, *, words: Sequence[str], place: int) -> Row:
    """A made-up row of a task; those of one task differ in length and label."""
    label = task.labels[place % len(task.labels)] if task.labels else ""
    text = " ".join(words)
    if task.kind is TaskKind.IMAGE:
        side = config.image_size
        image = (np.arange(side * side, dtype=np.uint32) * (7 + place) % 251).astype(np.uint8)
        return Row(task.name, "", label, image.reshape(side, side))
    if task.kind is TaskKind.TAGGING:
        return Row(task.name, text, " ".join([label] * len(words)))
    return Row(task.name, text, label or text)
