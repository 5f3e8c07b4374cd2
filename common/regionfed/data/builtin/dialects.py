"""What ambiguous words mean in each region: the known truth about who conflicts with whom.

Ambiguous words come in blocks as long as there are meanings, so that in every region a block is a
permutation of the meanings. In a conflict, the words of a block exchange their meanings among
each other by a rotation that differs between regions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regionfed.data.builtin.lexicon import SPELL_BLOCK, Lexicon
from regionfed.data.partition import stream
from regionfed.data.sections import BuiltinConfig
from regionfed.tasks.registry import BUILTIN_INTENTS, ENTITY_TYPES


@dataclass(frozen=True)
class Dialects:
    """Meaning of every ambiguous word in every region, as arrays (regions, words) of int64.

    `intents` index the intents, `types` the entity types, `spellings` the position in
    `Lexicon.ambiguous_typos` whose right word is meant.
    """

    intents: NDArray[np.int64]
    types: NDArray[np.int64]
    spellings: NDArray[np.int64]

    def conflict(self) -> NDArray[np.float64]:
        """Share of ambiguous words on which two regions differ: (regions, regions), 0 to 1."""
        table = np.concatenate([self.intents, self.types, self.spellings], axis=1)
        if not table.shape[1]:
            return np.zeros((len(table), len(table)))
        return (table[:, None, :] != table[None, :, :]).mean(axis=2)


def build_dialects(
    config: BuiltinConfig, lexicon: Lexicon, *, regions: tuple[str, ...], seed: int
) -> Dialects:
    """The regions' meanings under one seed."""
    own = np.array(
        [
            config.conflicting_regions is None or name in config.conflicting_regions
            for name in regions
        ]
    )

    def meanings(kind: str, *, count: int, block: int) -> NDArray[np.int64]:
        conflicting = 0 if config.iid else round(config.conflict * count)
        table = np.zeros((len(regions), count), np.int64)
        for start in range(0, count, block):
            rng = stream(seed, "dialect", kind, start)
            size = min(max(conflicting - start, 0), block)
            size = 2 if size == 1 else size  # one word alone has nobody to exchange with
            base = rng.permutation(block)
            table[:, start : start + block] = base
            if size:
                turn = _turns(own, size=size, rng=rng)
                order = (np.arange(size)[None, :] + turn[:, None]) % size
                table[:, start : start + size] = base[order]
        return table

    spellings = meanings("spell", count=len(lexicon.ambiguous_typos), block=SPELL_BLOCK)
    blocks = np.arange(spellings.shape[1]) // SPELL_BLOCK * SPELL_BLOCK
    return Dialects(
        intents=meanings("intent", count=len(lexicon.ambiguous_cues), block=len(BUILTIN_INTENTS)),
        types=meanings("ner", count=len(lexicon.ambiguous_entities), block=len(ENTITY_TYPES)),
        spellings=spellings + blocks[None, :],
    )


def _turns(own: NDArray[np.bool_], *, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The rotation of each region, as different as `size` meanings allow; 0 is the shared one."""
    turn = np.zeros(len(own), np.int64)
    if own.all():
        turn = np.arange(len(own)) % size
        return rng.permutation(turn)
    count = int(own.sum())
    turn[own] = rng.permutation(1 + np.arange(count) % (size - 1))
    return turn
