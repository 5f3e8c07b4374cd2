"""Local training by DP-SGD (Abadi et al. 2016, through Opacus): what `local_train` is otherwise.

Each step takes a Poisson sample of the rows, clips every row's gradient, and adds noise to their
sum. The rows that a step draws stay secret on the device, so sampling amplifies against everybody.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from regionfed.errors import DataError, UpdateError
from regionfed.models.base import EncodedRows, FederatedModel
from regionfed.models.flat import FlatModel, Vector
from regionfed.privacy.config import ExampleConfig
from regionfed.privacy.events import ExampleLevelTraining
from regionfed.privacy.example_level import make_private
from regionfed.training.batches import steps_of
from regionfed.training.config import TrainingConfig
from regionfed.training.device import execution, release_memory
from regionfed.training.local import LocalResult
from regionfed.training.optimizer import make_optimizer

_GRADIENTS = "grad_sample"
"""Where Opacus puts the gradients of a parameter by row."""


def private_event(
    rows: int, config: TrainingConfig, example: ExampleConfig, *, client: str, round: int
) -> ExampleLevelTraining:
    """What one round of `private_train` on so many rows has to be charged, before it runs."""
    if rows < 1:
        raise DataError("a client has no rows to train on; leave it out")
    return ExampleLevelTraining(
        round=round,
        client=client,
        noise_multiplier=example.noise_multiplier,
        sample_rate=1.0 / math.ceil(rows / config.batch_size),
        steps=steps_of(rows, config),
    )


def private_train(
    model: FederatedModel,
    flat: FlatModel,
    data: EncodedRows,
    config: TrainingConfig,
    example: ExampleConfig,
    *,
    seed: int,
    start: Vector,
) -> LocalResult:
    """DP-SGD from `start` with a fresh optimizer; the model is left at its end point.

    As many steps as `local_train` would take, of `batch_size` rows on average. `seed` fixes
    dropout only: batches and noise come from the operating system. The loss and the number of rows
    in the result are not private and must stay on the device.

    Raises ExampleLevelRefused for layers that DP-SGD cannot train, DataError for no rows,
    UpdateError for a start that does not fit or a model that is not finite.
    """
    if not len(data):
        raise DataError("a client has no rows to train on; leave it out")
    flat.write(start)
    flat.close_gradient()
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    loader: DataLoader[tuple[Tensor, ...]] = DataLoader(
        TensorDataset(torch.arange(len(data))), batch_size=config.batch_size
    )
    private = make_private(
        model.module,
        make_optimizer(parameters, config),
        loader,
        noise_multiplier=example.noise_multiplier,
        max_grad_norm=example.clipping_norm,
    )
    steps = steps_of(len(data), config)
    loss_sum, seen = 0.0, 0
    devices = [flat.device] if flat.device.type == "cuda" else []
    try:
        with (
            execution(config, flat.device),
            torch.random.fork_rng(devices=devices),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            torch.manual_seed(seed)
            for index in islice(_endless(private.loader), steps):
                private.optimizer.zero_grad(set_to_none=True)
                if len(index):
                    loss = model.loss(data.batch(index, flat.device))
                    torch.autograd.backward(loss)
                    loss_sum += float(loss.detach()) * len(index)
                    seen += len(index)
                _without_gaps(parameters, rows=len(index))
                private.optimizer.step()
    finally:
        private.close()
        flat.close_gradient()
        model.module.eval()
    end = flat.read()
    release_memory(flat.device)
    if not math.isfinite(float(end.sum(dtype="float64"))):
        raise UpdateError(
            f"the model became infinite within {steps} steps of DP-SGD; lower "
            "training.learning_rate or privacy.example.noise_multiplier"
        )
    return LocalResult(
        update=start - end,
        buffers=flat.read_buffers(),
        examples=len(data),
        steps=steps,
        loss=loss_sum / max(seen, 1),
    )


def _endless(loader: DataLoader[tuple[Tensor, ...]]) -> Iterator[Tensor]:
    """Row indices of Poisson batches; one may be empty and is then noise alone."""
    while True:
        for batch in loader:
            # Before its first rows came, Opacus' loader has no form for an empty batch.
            yield batch[0].reshape(-1).to(torch.int64)


def _without_gaps(parameters: list[torch.nn.Parameter], *, rows: int) -> None:
    """Zero gradients where none came (an empty batch, an unused layer): noise goes everywhere."""
    for parameter in parameters:
        if getattr(parameter, _GRADIENTS, None) is None:
            setattr(parameter, _GRADIENTS, parameter.new_zeros((rows, *parameter.shape)))
