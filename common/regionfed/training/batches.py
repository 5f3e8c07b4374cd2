"""Which rows make up each optimizer step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from regionfed.errors import DataError
from regionfed.training.config import TrainingConfig


def _endless(count: int, *, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield from torch.split(torch.randperm(count, generator=generator), size)


def steps_of(count: int, config: TrainingConfig) -> int:
    """Optimizer steps that a client with `count` rows takes."""
    if config.steps is not None:
        return config.steps
    batches = -(-count // config.batch_size) * (config.epochs or 1)
    return -(-batches // config.accumulation)


def plan_steps(count: int, config: TrainingConfig, *, seed: int) -> list[list[Tensor]]:
    """Row indices of every batch of every step: shuffled anew each epoch, from the seed alone.

    The last batch of an epoch may be smaller, and so may the last step of the last epoch. Raises
    `DataError` for no rows.
    """
    if count == 0:
        raise DataError(
            "a client has no rows to train on; leave it out, or give it rows in the partition"
        )
    generator = torch.Generator().manual_seed(seed)
    stream = _endless(count, size=config.batch_size, generator=generator)
    if config.steps is None:
        stream = islice(stream, -(-count // config.batch_size) * (config.epochs or 1))
    return [list(islice(stream, config.accumulation)) for _ in range(steps_of(count, config))]


def in_order(count: int, size: int) -> list[Tensor]:
    """Consecutive row indices, `size` at a time."""
    return list(torch.split(torch.arange(count), size)) if count else []
