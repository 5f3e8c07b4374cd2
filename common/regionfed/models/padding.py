"""Rows of different length in one rectangle, cut to what each batch needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regionfed.models.base import EncodedRows

IGNORED = -100


@dataclass(frozen=True)
class PaddedRows(EncodedRows):
    """Encoded rows whose tensors are padded along their second axis.

    `lengths` gives, for tensors that may be cut, the used length of every row (1-D int64). A batch
    is as wide as its longest row, so a short batch costs what it holds and no more. `fillers`
    gives the value of padding where it is not 0.
    """

    lengths: Mapping[str, Tensor] = field(default_factory=dict)
    fillers: Mapping[str, int] = field(default_factory=dict)

    def batch(self, index: Tensor, device: torch.device) -> dict[str, Tensor]:
        """The given rows on `device`, cut to the longest of them."""
        out: dict[str, Tensor] = {}
        for name, tensor in self.tensors.items():
            rows = tensor[index]
            length = self.lengths.get(name)
            if length is not None and len(index):
                rows = rows[:, : max(1, int(length[index].max()))]
            out[name] = rows.to(device)
        return out


def pad(sequences: Sequence[Sequence[int]], *, value: int) -> tuple[Tensor, Tensor]:
    """Right-padded (rows, longest) int64 tensor and the lengths of its rows (int64)."""
    lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.int64)
    width = max(1, int(lengths.max())) if len(sequences) else 1
    out = torch.full((len(sequences), width), value, dtype=torch.int64)
    for place, sequence in enumerate(sequences):
        out[place, : len(sequence)] = torch.as_tensor(sequence, dtype=torch.int64)
    return out, lengths


def mask_of(ids: Tensor, lengths: Tensor) -> Tensor:
    """(rows, width) bool: True where a row has a token."""
    return torch.arange(ids.shape[1])[None, :] < lengths[:, None]


def attention(mask: Tensor) -> Tensor:
    """Additive (rows, 1, 1, width) attention mask: 0 where attended, very negative elsewhere.

    Given in this form, transformers takes it as it is, with no look at the values, which also
    keeps a forward pass free of branches on data (needed to batch clients with torch.func).
    """
    lowest = torch.finfo(torch.float32).min
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, lowest)[:, None, None, :]


def causal(width: int, *, device: torch.device) -> Tensor:
    """Additive (width, width) mask that hides later positions."""
    lowest = torch.finfo(torch.float32).min
    return torch.full((width, width), lowest, device=device).triu(1)


def row_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of each row over its labelled positions.

    `logits` is (rows, positions, classes), `labels` (rows, positions) with `IGNORED` where there
    is nothing to learn; a row without labels has loss 0. Returns (rows,).
    """
    each = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED, reduction="none"
    ).view(labels.shape)
    return each.sum(1) / (labels != IGNORED).sum(1).clamp(min=1)
