"""Encoded rows taken apart and put together without encoding them again."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regionfed.models.base import EncodedRows
from regionfed.models.padding import PaddedRows


def picked(rows: EncodedRows, places: Sequence[int]) -> EncodedRows:
    """The rows at the given places, still cut to what each batch needs."""
    index = torch.tensor(places, dtype=torch.int64)
    tensors = {name: tensor[index] for name, tensor in rows.tensors.items()}
    kept = [rows.rows[place] for place in places]
    if not isinstance(rows, PaddedRows):
        return EncodedRows(tensors=tensors, rows=kept)
    return PaddedRows(
        tensors=tensors,
        rows=kept,
        lengths={name: lengths[index] for name, lengths in rows.lengths.items()},
        fillers=rows.fillers,
    )


def joined(parts: Sequence[EncodedRows]) -> EncodedRows:
    """Rows of several clients as one, padded to the widest of them."""
    first = parts[0]
    rows = [row for part in parts for row in part.rows]
    fillers = first.fillers if isinstance(first, PaddedRows) else {}
    tensors = {}
    for name in first.tensors:
        pieces = [part.tensors[name] for part in parts]
        widest = max((piece.shape[1] for piece in pieces if piece.dim() > 1), default=0)
        tensors[name] = torch.cat(
            [_widened(piece, width=widest, filler=fillers.get(name, 0)) for piece in pieces]
        )
    if not isinstance(first, PaddedRows):
        return EncodedRows(tensors=tensors, rows=rows)
    lengths = {
        name: torch.cat([part.lengths[name] for part in parts if isinstance(part, PaddedRows)])
        for name in first.lengths
    }
    return PaddedRows(tensors=tensors, rows=rows, lengths=lengths, fillers=fillers)


def _widened(piece: torch.Tensor, *, width: int, filler: int) -> torch.Tensor:
    if piece.dim() < 2 or piece.shape[1] == width:
        return piece
    out = piece.new_full((piece.shape[0], width, *piece.shape[2:]), filler)
    out[:, : piece.shape[1]] = piece
    return out
