"""One row at a time: queries as a client of a region would type them, with their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regionfed.data.builtin.dialects import Dialects
from regionfed.data.builtin.lexicon import Lexicon
from regionfed.data.partition import stream
from regionfed.data.sections import BuiltinConfig
from regionfed.data.types import Row
from regionfed.tasks.registry import BUILTIN_INTENTS, ENTITY_TYPES, OUTSIDE

Word = TypeVar("Word")

_OPTIONAL = (("brand", 0.4), ("attribute", 0.4), ("audience", 0.2), ("model", 0.15))
"""Entity types besides the product, and how often a query has each."""

_CUE_IN_NER = 0.4
"""How often a query of the NER task has a word of intent, which belongs to no entity."""

_ORDER = (OUTSIDE, "brand", "model", "attribute", "product", "audience")
"""The order in which people name things: 'cheap nubat mk2 red tire men'."""


@dataclass(frozen=True)
class Shopper:
    """What makes one client's queries its own.

    `intents` and `categories` are its distributions, `own_intents` and `own_types` what the user
    words mean to it; `dialect` is the row of its region in `Dialects`.
    """

    dialect: int
    intents: NDArray[np.float64]
    categories: NDArray[np.float64]
    own_intents: NDArray[np.int64]
    own_types: NDArray[np.int64]


class QueryWriter:
    """Draws rows of one client."""

    def __init__(
        self, config: BuiltinConfig, lexicon: Lexicon, *, dialects: Dialects, shopper: Shopper
    ) -> None:
        self._config = config
        self._lexicon = lexicon
        self._dialects = dialects
        self._shopper = shopper

    def row(self, task: str, rng: np.random.Generator) -> Row:
        """A row of 'intent', 'spell' or 'ner'."""
        if task == "intent":
            return self._intent_row(rng)
        return self._spell_row(rng) if task == "spell" else self._ner_row(rng)

    def _intent_row(self, rng: np.random.Generator) -> Row:
        intent = int(rng.choice(len(BUILTIN_INTENTS), p=self._shopper.intents))
        pool: list[str] = []
        own = [word for word, meaning in self._own(self._shopper.own_intents) if meaning == intent]
        if own and rng.random() < self._config.user_share:
            pool = own
        elif rng.random() < self._config.ambiguity:
            meanings = self._dialects.intents[self._shopper.dialect]
            pool = [self._lexicon.ambiguous_cues[i] for i in np.flatnonzero(meanings == intent)]
        cue = _pick(pool or self._lexicon.cues[intent], rng)
        pairs = self._entities(rng, room=self._config.max_tokens - 1)
        text = _in_order([(cue, OUTSIDE), *pairs])
        return Row("intent", " ".join(word for word, _ in text), BUILTIN_INTENTS[intent])

    def _ner_row(self, rng: np.random.Generator) -> Row:
        pairs = self._entities(rng, room=self._config.max_tokens - 1)
        meanings = self._dialects.types[self._shopper.dialect]
        for place, (_, kind) in enumerate(pairs):
            index = ENTITY_TYPES.index(kind)
            own = [word for word, meaning in self._own(self._shopper.own_types) if meaning == index]
            shared = [
                self._lexicon.ambiguous_entities[i] for i in np.flatnonzero(meanings == index)
            ]
            if own and rng.random() < self._config.user_share:
                pairs[place] = (_pick(own, rng), kind)
            elif shared and rng.random() < self._config.ambiguity:
                pairs[place] = (_pick(shared, rng), kind)
        text = _in_order([*self._maybe_cue(rng), *pairs])
        return Row("ner", " ".join(word for word, _ in text), " ".join(kind for _, kind in text))

    def _spell_row(self, rng: np.random.Generator) -> Row:
        room = max(2, self._config.max_tokens - 3)  # every word must come back right, so fewer
        pairs = self._entities(rng, room=room)
        wrong = ""
        right = ""
        if rng.random() < self._config.spelling_noise:
            typos = self._lexicon.ambiguous_typos
            if typos and rng.random() < self._config.ambiguity:
                form = int(rng.integers(len(typos)))
                meant = int(self._dialects.spellings[self._shopper.dialect, form])
                wrong, right = typos[form][0], typos[meant][1]
            else:
                wrong, right = _pick(self._lexicon.typos, rng)
            kind = self._lexicon.type_of[right]
            others = [pair for pair in pairs if pair[1] != kind]
            pairs = [*others[-(room - 1) :], (right, kind)]
        text = _in_order(pairs)
        target = [word for word, _ in text]
        typed = [wrong if word == right else word for word in target]
        return Row("spell", " ".join(typed), " ".join(target))

    def _entities(self, rng: np.random.Generator, *, room: int) -> list[tuple[str, str]]:
        """Words with one type everywhere: some of the optional types, then always the product."""
        chosen = [kind for kind, chance in _OPTIONAL if rng.random() < chance]
        pairs = [(_pick(self._lexicon.entities[kind], rng), kind) for kind in chosen[: room - 1]]
        category = int(rng.choice(len(self._lexicon.categories), p=self._shopper.categories))
        pairs.append((_pick(self._lexicon.products[category], rng), "product"))
        return pairs

    def _maybe_cue(self, rng: np.random.Generator) -> list[tuple[str, str]]:
        if rng.random() >= _CUE_IN_NER:
            return []
        return [(_pick(_pick(self._lexicon.cues, rng), rng), OUTSIDE)]

    def _own(self, meanings: NDArray[np.int64]) -> list[tuple[str, int]]:
        return [
            (word, int(meaning))
            for word, meaning in zip(self._lexicon.user_words, meanings, strict=True)
        ]


def describe_shopper(
    config: BuiltinConfig,
    lexicon: Lexicon,
    *,
    place: tuple[int, int],
    regions: int,
    alpha: float,
    home_probability: float,
    seed: int,
) -> Shopper:
    """The client at (region, client), its distributions drawn from its own stream."""
    region, client = place
    rng = stream(seed, "shopper", region, client)
    count = len(lexicon.categories)
    home = np.arange(count) % regions == region % count
    categories = np.full(count, 1.0 / count)
    intents = np.full(len(BUILTIN_INTENTS), 1.0 / len(BUILTIN_INTENTS))
    if not config.iid:
        intents = rng.dirichlet(np.full(len(BUILTIN_INTENTS), alpha))
        if not home.all():
            away = (1 - home_probability) * ~home / (~home).sum()
            categories = home_probability * home / home.sum() + away
    words = len(lexicon.user_words)
    return Shopper(
        dialect=region,
        intents=intents,
        categories=categories,
        own_intents=rng.integers(len(BUILTIN_INTENTS), size=words),
        own_types=rng.integers(len(ENTITY_TYPES), size=words),
    )


def _pick(options: Sequence[Word], rng: np.random.Generator) -> Word:
    return options[int(rng.integers(len(options)))]


def _in_order(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(pairs, key=lambda pair: _ORDER.index(pair[1]))
