"""Greedy decoding of an encoder-decoder, a whole batch at a time, with a key-value cache."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regionfed.models.padding import IGNORED

_OLD_CACHE = "past_key_values"


@torch.no_grad()
def greedy(
    module: Any,
    *,
    inputs: Tensor,
    mask: Tensor,
    start_id: int,
    eos_id: int,
    lengths: Tensor,
    read: Tensor,
    kind: Tensor,
    choices: Sequence[Sequence[int]],
) -> Tensor:
    """Most likely next id until every row has ended.

    `inputs` is (rows, width) int64, `mask` its additive attention mask, `lengths` (rows,) the most
    ids a row may take. Rows with `kind` k > 0 choose among `choices[k-1]` only and take exactly
    `lengths` ids. `read` (rows, steps) are ids that the decoder reads at a step in place of the id
    before, `IGNORED` where it reads its own. Returns (rows, steps) int64; after its end a row is filled with `eos_id`.
    """
    rows = inputs.shape[0]
    encoded = module.get_encoder()(input_ids=inputs, attention_mask=mask)
    free = kind == 0
    limit = int(lengths.max()) if rows else 0
    forbidden: Tensor | None = None
    token = torch.full((rows, 1), start_id, dtype=torch.int64, device=inputs.device)
    token = _or_read(token, read, step=0)
    done = torch.zeros(rows, dtype=torch.bool, device=inputs.device)
    # transformers renamed the argument; the result bears the same name.
    named = "cache" if "cache" in inspect.signature(module.forward).parameters else _OLD_CACHE
    cache: Any = None
    out: list[Tensor] = []
    for step in range(limit):
        result = module(
            encoder_outputs=encoded,
            attention_mask=mask,
            decoder_input_ids=token,
            use_cache=True,
            **{named: cache},
        )
        cache = getattr(result, named)
        scores = result.logits[:, -1]
        if choices:
            if forbidden is None:
                forbidden = _forbidden(kind, choices, classes=scores.shape[-1])
            scores = scores.masked_fill(forbidden, -torch.inf)
        chosen = scores.argmax(-1).masked_fill(done, eos_id)
        out.append(chosen)
        done = done | (free & (chosen == eos_id)) | (step + 1 >= lengths)
        if bool(done.all()):
            break
        token = _or_read(chosen[:, None], read, step=step + 1)
    if not out:
        return torch.full((rows, 1), eos_id, dtype=torch.int64, device=inputs.device)
    return torch.stack(out, dim=1)


def _or_read(token: Tensor, read: Tensor, *, step: int) -> Tensor:
    """The id that is given to read at this step, or the row's own `token` (rows, 1)."""
    if step >= read.shape[1]:
        return token
    given = read[:, step : step + 1]
    return torch.where(given == IGNORED, token, given)


def _forbidden(kind: Tensor, choices: Sequence[Sequence[int]], *, classes: int) -> Tensor:
    """(rows, classes) bool: True on the ids that a row of its kind must not answer with."""
    table = torch.zeros(len(choices) + 1, classes, dtype=torch.bool, device=kind.device)
    for place, ids in enumerate(choices, start=1):
        table[place] = True
        table[place, list(ids)] = False
    return table[kind]
