"""Correcting text word by word: each word is kept or replaced by one of the vocabulary.

Source: edit tags of text-editing models (Malmi et al. 2019, "Encode, Tag, Realize"). A model from
scratch need not learn to copy what is right already.
"""

from __future__ import annotations

from collections.abc import Sequence

from regionfed.models.padding import IGNORED
from regionfed.models.tokens import WordTokenizer


class WordRewriting:
    """Edits as ids of a `WordTokenizer`: its mark before a spelt word stands for 'keep'."""

    def __init__(self, tokenizer: WordTokenizer) -> None:
        self.keep_id = tokenizer.spell_id
        self._tokenizer = tokenizer
        self.ids = (self.keep_id, *tokenizer.word_ids)

    def labels(self, typed: Sequence[str], right: Sequence[str]) -> list[int]:
        """One edit per typed word; `IGNORED` where no edit writes what is right.

        That is a word outside the vocabulary, and every word of a text whose answer has another
        number of words.
        """
        if len(typed) != len(right):
            return [IGNORED] * len(typed)
        return [
            self.keep_id if was == now else self._tokenizer.word_id(now, default=IGNORED)
            for was, now in zip(typed, right, strict=True)
        ]

    def text(self, edits: Sequence[int], typed: Sequence[str]) -> str:
        """The text that the edits make of the typed words; words without an edit are kept."""
        kept = list(typed)
        for place, edit in enumerate(edits[: len(kept)]):
            if edit != self.keep_id:
                kept[place] = self._tokenizer.decode([edit])
        return " ".join(kept)
