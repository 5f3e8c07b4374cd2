"""A classifier of words in a few thousand parameters, for tests of methods and not of models."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from regionfed.data.types import Row
from regionfed.models.base import EncodedRows, RowwiseModel
from regionfed.models.config import ModelConfig
from regionfed.tasks.spec import TaskSpec

BUCKETS = 48
WIDTH = 8


class _Net(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Linear(BUCKETS, WIDTH)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.head(torch.tanh(self.body(words)))
        return scores


class LinearWords(RowwiseModel):
    """Counts of hashed words, one hidden layer, one head for the only task."""

    head = ("head.",)

    def __init__(self, task: TaskSpec) -> None:
        self.labels = list(task.labels)
        self.module = _Net(len(self.labels))

    def encode(self, rows: Sequence[Row]) -> EncodedRows:
        words = torch.zeros(len(rows), BUCKETS)
        for place, row in enumerate(rows):
            for word in row.text.split():
                words[place, zlib.crc32(word.encode()) % BUCKETS] += 1.0
        labels = torch.tensor([self.labels.index(row.target) for row in rows], dtype=torch.int64)
        return EncodedRows(tensors={"words": words, "labels": labels}, rows=rows)

    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(
            self.module(batch["words"]), batch["labels"], reduction="none"
        )

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        best = self.module(batch["words"]).argmax(-1).tolist()
        return [self.labels[place] for place in best]


def build(config: ModelConfig, tasks: Sequence[TaskSpec]) -> LinearWords:
    """For `model.factory`."""
    del config
    return LinearWords(tasks[0])


def build_headless(config: ModelConfig, tasks: Sequence[TaskSpec]) -> LinearWords:
    """The same, without saying which parameters are the head."""
    model = build(config, tasks)
    model.head = ()
    return model
