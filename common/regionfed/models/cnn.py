"""Convolutional networks for small grey images, with one head per image task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regionfed.data.types import Row
from regionfed.errors import ModelError
from regionfed.models.base import EncodedRows, RowwiseModel
from regionfed.models.labels import Heads, LabelSpace, split_kinds, task_of
from regionfed.tasks.spec import TaskKind, TaskSpec


def lenet(*, image_size: int, width: int, dropout: float) -> nn.Module:
    """Two 5x5 convolutions with pooling and one hidden layer of `width` units, no buffers.

    Source: the FEMNIST network of Caldas et al., "LEAF" (2018), with our widths.
    """
    narrow, wide = max(4, width // 4), max(8, width // 2)
    side = image_size // 4
    return nn.Sequential(
        nn.Conv2d(1, narrow, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(narrow, wide, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(wide * side * side, width),
        nn.ReLU(),
        nn.Dropout(dropout),
    )


class _Residual(nn.Module):
    """Two 3x3 convolutions with BatchNorm around a shortcut (He et al. 2016)."""

    def __init__(self, narrow: int, wide: int, *, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(narrow, wide, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(wide)
        self.second = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(wide)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or narrow != wide:
            self.shortcut = nn.Conv2d(narrow, wide, 1, stride=stride, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        hidden = torch.relu(self.first_norm(self.first(image)))
        hidden = self.second_norm(self.second(hidden))
        return torch.relu(hidden + self.shortcut(image))


def resnet(*, width: int, layers: int, dropout: float) -> nn.Module:
    """`layers` residual blocks in each of three stages, then the mean over the image.

    Its BatchNorm statistics are buffers: averaged by the tiers, outside the vector.
    """
    stages = [max(4, width // 4), max(8, width // 2), width]
    blocks: list[nn.Module] = [
        nn.Conv2d(1, stages[0], 3, padding=1, bias=False),
        nn.BatchNorm2d(stages[0]),
        nn.ReLU(),
    ]
    narrow = stages[0]
    for stage, wide in enumerate(stages):
        for block in range(layers):
            stride = 2 if stage and not block else 1
            blocks.append(_Residual(narrow, wide, stride=stride))
            narrow = wide
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout))


class HeadedTrunk(nn.Module):
    """A trunk from images to features, and a head per task; a frozen trunk never trains."""

    def __init__(
        self, trunk: nn.Module, *, width: int, tasks: Sequence[TaskSpec], frozen: bool
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = Heads(width, tasks)
        self.frozen = frozen
        if frozen:
            self.trunk.requires_grad_(False)

    def train(self, mode: bool = True) -> HeadedTrunk:
        """Training mode, with a frozen trunk left in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.trunk.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """(rows, height, width) uint8 images to (rows, classes over all tasks) scores."""
        scaled: Tensor = self.heads(self.trunk(images[:, None].float() / 255.0))
        return scaled


class CnnModel(RowwiseModel):
    """A `HeadedTrunk` behind the common interface. Images stay uint8 until they are used."""

    head = ("heads.",)
    module: HeadedTrunk

    def __init__(
        self,
        trunk: nn.Module,
        *,
        width: int,
        tasks: Sequence[TaskSpec],
        image_size: int,
        frozen: bool,
    ) -> None:
        """Raises `ModelError` for a task that is not about images."""
        split_kinds(
            tasks,
            allowed=(TaskKind.IMAGE,),
            model="a convolutional network",
            fix="use model.kind = 't5' or 'roberta' for text",
        )
        self.tasks = {task.name: task for task in tasks}
        self.space = LabelSpace(tasks)
        self.image_size = image_size
        self.module = HeadedTrunk(trunk, width=width, tasks=tasks, frozen=frozen)

    def _image(self, row: Row) -> Tensor:
        side = self.image_size
        image = row.image
        if image is None or image.shape != (side, side) or image.dtype != np.uint8:
            given = "no image" if image is None else f"an image {image.shape} {image.dtype}"
            raise ModelError(
                f"a row of task {row.task!r} has {given}, but the model takes ({side}, {side}) "
                "uint8; scale the images, or set model.image_size"
            )
        return torch.from_numpy(np.array(image))

    def encode(self, rows: Sequence[Row]) -> EncodedRows:
        """Images (rows, height, width) uint8 and labels."""
        side = self.image_size
        images = torch.empty(len(rows), side, side, dtype=torch.uint8)
        labels = torch.empty(len(rows), dtype=torch.int64)
        for place, row in enumerate(rows):
            task = task_of(row, self.tasks)
            images[place] = self._image(row)
            labels[place] = self.space.index(task.name, row.target)
        tensors = {"images": images, "labels": labels, "allowed": self.space.allowed(rows)}
        return EncodedRows(tensors=tensors, rows=rows)

    def _scores(self, batch: Mapping[str, Tensor]) -> Tensor:
        scores: Tensor = self.module(batch["images"]).float()
        return scores.masked_fill(~batch["allowed"], torch.finfo(torch.float32).min)

    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy of each row's label, shape (rows,)."""
        return torch.nn.functional.cross_entropy(
            self._scores(batch), batch["labels"], reduction="none"
        )

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        """A label's name per row."""
        return [self.space.names[place] for place in self._scores(batch).argmax(-1).tolist()]
