"""A model of spelling errors, learnt from words that people really misspelt."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from regionfed.data.real.read import open_text

_EDGE = "^"
_ATTESTED = 0.4
"""How often a word with known misspellings gets one of these instead of a drawn edit."""

Edit = tuple[str, str, str]
"""(letter before, letters as they should be, letters as typed)."""


class ErrorModel:
    """Draws misspelt forms: attested ones, or single edits by their conditional frequency.

    An edit is a letter left out, put in, exchanged, or two letters swapped, given the letter
    before it. Its weight is the number of times it was seen over the number of times the letters
    stood there in the right words.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        seen: Counter[Edit] = Counter()
        places: Counter[tuple[str, str]] = Counter()
        attested: dict[str, dict[str, None]] = defaultdict(dict)
        for wrong, right in pairs:
            edit = single_edit(wrong, right)
            if edit is None:
                continue
            seen[edit] += 1
            places.update(_places(right))
            attested[right][wrong] = None
        self._attested = {word: tuple(forms) for word, forms in attested.items()}
        self._edits: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
        for (before, want, typed), times in sorted(seen.items()):
            weight = times / max(places[before, want], 1)
            self._edits[before, want].append((typed, weight))

    def corrupt(self, query: str, rng: np.random.Generator) -> str | None:
        """The query with one word misspelt; None when no word offers itself."""
        words = query.split()
        able = [index for index, word in enumerate(words) if len(word) > 3 and word.isalpha()]
        if not able:
            return None
        index = able[int(rng.integers(len(able)))]
        form = self.misspell(words[index], rng)
        return None if form is None else " ".join([*words[:index], form, *words[index + 1 :]])

    def misspell(self, word: str, rng: np.random.Generator) -> str | None:
        """One misspelt form of a word; None when no learnt edit fits it."""
        known = self._attested.get(word, ())
        if known and rng.random() < _ATTESTED:
            return known[int(rng.integers(len(known)))]
        forms: list[str] = []
        weights: list[float] = []
        for start, (before, want) in enumerate_places(word):
            for typed, weight in self._edits.get((before, want), ()):
                forms.append(word[:start] + typed + word[start + len(want) :])
                weights.append(weight)
        if not forms:
            return None
        total = np.array(weights)
        form = forms[int(rng.choice(len(forms), p=total / total.sum()))]
        return None if form == word else form


def single_edit(wrong: str, right: str) -> Edit | None:
    """The one edit between two words; None if they are equal or further apart."""
    if wrong == right or abs(len(wrong) - len(right)) > 1:
        return None
    start = 0
    while start < min(len(wrong), len(right)) and wrong[start] == right[start]:
        start += 1
    end = 0
    while end < min(len(wrong), len(right)) - start and wrong[-1 - end] == right[-1 - end]:
        end += 1
    typed, want = wrong[start : len(wrong) - end], right[start : len(right) - end]
    swapped = len(want) == 2 and typed == want[::-1]
    if not swapped and (len(typed) > 1 or len(want) > 1):
        return None
    return (right[start - 1] if start else _EDGE, want, typed)


def enumerate_places(word: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """(start, (letter before, letters there)) for runs of no, one and two letters."""
    for start in range(len(word) + 1):
        before = word[start - 1] if start else _EDGE
        for length in (0, 1, 2):
            if start + length <= len(word):
                yield start, (before, word[start : start + length])


def read_typo_lists(folder: Path) -> Iterator[tuple[str, str]]:
    """(misspelt, right) single words from the lists in `spelling/`, lower case, letters only."""
    for wrong, right in _raw_pairs(folder):
        wrong, right = wrong.strip().lower(), right.strip().lower()
        if wrong.isascii() and right.isascii() and wrong.isalpha() and right.isalpha():
            yield wrong, right


def word_pairs(noisy: str, right: str) -> Iterator[tuple[str, str]]:
    """The words of two queries side by side, when they have equally many."""
    left, other = noisy.split(), right.split()
    if len(left) == len(other):
        yield from zip(left, other, strict=True)


def _raw_pairs(folder: Path) -> Iterator[tuple[str, str]]:
    with open_text(folder / "codespell_dictionary.txt") as file:
        for line in file:
            wrong, _, fixes = line.partition("->")
            if "," not in fixes:  # a list of fixes is a guess between them
                yield wrong, fixes
    with open_text(folder / "en_natural_misspellings.txt") as file:
        for line in file:
            right, *forms = line.split()
            yield from ((wrong, right) for wrong in forms)
    with open_text(folder / "augly_misspelling.json") as file:
        for right, forms in json.load(file).items():
            yield from ((wrong, right) for wrong in forms)


def _places(word: str) -> Iterator[tuple[str, str]]:
    return (place for _, place in enumerate_places(word))
