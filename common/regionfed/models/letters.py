"""Words as sets of letter groups: a word that no vocabulary knows still has a meaning.

Source: Bojanowski et al. (2017), "Enriching Word Vectors with Subword Information". A misspelt word
shares most of its groups with the right one, so the two start out close together.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional

GROUPS = 1 << 13
"""Ids of letter groups; groups that fall on the same id share a vector."""

NO_GROUP = GROUPS
"""Fills up words with fewer groups; it has no vector."""

WIDEST = 40
"""Most groups that a word keeps: all those of a word of 19 letters."""


def groups_of(word: str) -> list[int]:
    """Ids of the word itself, of its letters and of its pairs of letters, at most `WIDEST`.

    Both ends of the word count as letters in the pairs. The ids are the same on every machine.
    """
    bounded = f"<{word}>"
    pairs = (bounded[at : at + 2] for at in range(len(bounded) - 1))
    # The mark keeps the word "a" apart from the letter "a".
    groups = [f"={word}", *word, *pairs]
    return [zlib.crc32(group.encode()) % GROUPS for group in groups[:WIDEST]]


def bags_of(texts: Sequence[Sequence[str]], *, limit: int) -> tuple[Tensor, Tensor]:
    """Groups of each word, (texts, longest, `WIDEST`) int32, and the texts' lengths (int64).

    A text keeps its first `limit` words; the rest of the rectangle is `NO_GROUP`.
    """
    lengths = torch.tensor([min(len(words), limit) for words in texts], dtype=torch.int64)
    longest = max(1, int(lengths.max())) if len(texts) else 1
    out = torch.full((len(texts), longest, WIDEST), NO_GROUP, dtype=torch.int32)
    for row, words in enumerate(texts):
        for place, word in enumerate(words[:limit]):
            groups = groups_of(word)
            out[row, place, : len(groups)] = torch.tensor(groups, dtype=torch.int32)
    return out, lengths


class LetterVectors(nn.Module):
    """Vectors of words: the sum of their groups' vectors over the root of their number.

    Beside any words it is given, it knows a list of words, whose vectors it gives at once.
    """

    _listed: Tensor
    _starts: Tensor
    _scales: Tensor

    def __init__(self, width: int, *, listed: Iterable[str]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(GROUPS, width))
        groups = [groups_of(word) for word in listed]
        numbers = [len(each) for each in groups]
        constants = {
            "_listed": torch.tensor([group for each in groups for group in each]),
            "_starts": torch.tensor([0, *accumulate(numbers[:-1])]),
            "_scales": torch.tensor([[1 / math.sqrt(number)] for number in numbers]),
        }
        for name, values in constants.items():
            self.register_buffer(name, values, persistent=False)

    def forward(self, bags: Tensor) -> Tensor:
        """Vectors (..., width) of words given as groups (..., `WIDEST`); of nothing it is 0."""
        there = bags != NO_GROUP
        # The filling borrows a vector, which is taken out of the sum.
        vectors = functional.embedding(bags.clamp(max=GROUPS - 1), self.weight)
        total = (vectors * there[..., None]).sum(-2)
        scaled: Tensor = total / there.sum(-1, keepdim=True).clamp(min=1).sqrt()
        return scaled

    def listed(self) -> Tensor:
        """Vectors (words, width) of the listed words."""
        total = functional.embedding_bag(self._listed, self.weight, self._starts, mode="sum")
        return total * self._scales
