"""The words of a built-in federation, the same for every region and every seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice

from regionfed.data.builtin import words
from regionfed.data.sections import BuiltinConfig
from regionfed.tasks.registry import BUILTIN_INTENTS, ENTITY_TYPES

SPELL_BLOCK = 8
"""So many ambiguous misspelt forms share the same right words."""


@dataclass(frozen=True)
class Lexicon:
    """All words by role.

    `entities` and `products` have one type everywhere. `typos` are (misspelt form, right word);
    `ambiguous_typos` are short forms that stand for a word, and for another one elsewhere.
    """

    categories: tuple[str, ...]
    products: tuple[tuple[str, ...], ...]
    entities: dict[str, tuple[str, ...]]
    cues: tuple[tuple[str, ...], ...]
    ambiguous_cues: tuple[str, ...]
    ambiguous_entities: tuple[str, ...]
    typos: tuple[tuple[str, str], ...]
    ambiguous_typos: tuple[tuple[str, str], ...]
    user_words: tuple[str, ...]
    type_of: dict[str, str]

    def all_words(self) -> Iterator[str]:
        """Every word that can occur in a query."""
        forms = chain(self.typos, self.ambiguous_typos)
        return chain(
            chain.from_iterable(self.products),
            chain.from_iterable(self.entities.values()),
            chain.from_iterable(self.cues),
            self.ambiguous_cues,
            self.ambiguous_entities,
            (form for form, _ in forms),
            self.user_words,
        )


def build_lexicon(config: BuiltinConfig) -> Lexicon:
    """The words for the sizes in the section; equal sizes give equal words."""
    used: set[str] = {"o", *BUILTIN_INTENTS, *ENTITY_TYPES}
    cues = tuple(
        words.take(len(words.CUES[intent]), listed=words.CUES[intent], salt=1, used=used)
        for intent in BUILTIN_INTENTS
    )
    categories = tuple(words.PRODUCTS)[: config.categories]
    products = tuple(
        words.take(
            config.products_per_category, listed=words.PRODUCTS[name], salt=2 + index, used=used
        )
        for index, name in enumerate(categories)
    )
    entities = {
        "brand": words.take(config.brands, listed=(), salt=40, used=used),
        "model": words.take(len(words.MODELS), listed=words.MODELS, salt=41, used=used),
        "audience": words.take(len(words.AUDIENCES), listed=words.AUDIENCES, salt=42, used=used),
        "attribute": words.take(len(words.ATTRIBUTES), listed=words.ATTRIBUTES, salt=43, used=used),
    }
    ambiguous_cues = words.take(
        _whole_blocks(config.ambiguous_words, block=len(BUILTIN_INTENTS)),
        listed=words.AMBIGUOUS_CUES,
        salt=44,
        used=used,
    )
    ambiguous_entities = words.take(
        _whole_blocks(config.ambiguous_words, block=len(ENTITY_TYPES)),
        listed=words.AMBIGUOUS_ENTITIES,
        salt=45,
        used=used,
    )
    user_words = words.take(config.user_vocabulary, listed=words.USER_WORDS, salt=46, used=used)
    type_of = {word: kind for kind, listed in entities.items() for word in listed}
    type_of.update((word, "product") for listed in products for word in listed)
    # One product of every category in turn, so that few misspellings still touch all regions.
    spellable = [row[index] for index in range(config.products_per_category) for row in products]
    spellable += [*entities["attribute"], *entities["audience"]]
    slang = words.take(
        _whole_blocks(config.ambiguous_words, block=SPELL_BLOCK), listed=(), salt=47, used=used
    )
    return Lexicon(
        categories=categories,
        products=products,
        entities=entities,
        cues=cues,
        ambiguous_cues=ambiguous_cues,
        ambiguous_entities=ambiguous_entities,
        typos=tuple(islice(_forms(spellable, used=used), config.misspellings)),
        ambiguous_typos=tuple(zip(slang, islice(cycle(spellable), len(slang)), strict=True)),
        user_words=user_words,
        type_of=type_of,
    )


def _whole_blocks(count: int, *, block: int) -> int:
    return -(-count // block) * block


def _forms(spellable: list[str], *, used: set[str]) -> Iterator[tuple[str, str]]:
    """(misspelt form, right word), each form once, going round the words for ever."""
    variant = 0
    while True:
        for word in spellable:
            form = words.misspell(word, variant=variant)
            if variant >= 4 * len(word):
                form = f"{form}{variant}"
            if form != word and form not in used:
                used.add(form)
                yield form, word
        variant += 1
