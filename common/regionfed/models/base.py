"""The one interface behind which every architecture stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regionfed.data.types import Row


@dataclass(frozen=True)
class EncodedRows:
    """Rows turned into model inputs once.

    `tensors` hold one row each along their first axis, on the CPU; `rows` are kept for scoring.
    """

    tensors: Mapping[str, Tensor]
    rows: Sequence[Row]

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, index: Tensor, device: torch.device) -> dict[str, Tensor]:
        """The given rows' tensors on `device`; `index` is a 1-D int64 tensor."""
        return {name: tensor[index].to(device) for name, tensor in self.tensors.items()}


class FederatedModel(ABC):
    """A differentiable black box: a module, a way to encode rows, a loss, and predictions.

    Nothing outside this interface knows the architecture (algorithm section 1).

    `head` names, by their beginnings, the parameters that methods with a personal head call the
    head; empty where the architecture has none of its own.
    """

    module: nn.Module
    head: tuple[str, ...] = ()

    @abstractmethod
    def encode(self, rows: Sequence[Row]) -> EncodedRows:
        """Tokenise or scale rows once. Rows with an empty target can be answered, not scored.

        Raises `ModelError` for a row of another task or with a target that is not a label.
        """

    @abstractmethod
    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Scalar mean loss over the rows of the batch."""

    @abstractmethod
    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        """One answer per row, in the form of `Row.target`."""


class RowwiseModel(FederatedModel):
    """A model whose loss is a plain mean of row losses, with no branch on the data's values.

    That is what allows many clients to be trained in one pass (`training.batched`).
    """

    @abstractmethod
    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Loss of each row, shape (rows,)."""

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Scalar mean loss over the rows of the batch."""
        return self.row_losses(batch).mean()
