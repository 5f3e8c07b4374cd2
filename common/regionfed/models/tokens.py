"""Text to token ids and back: a word vocabulary of our own, or a ready-made tokenizer."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regionfed.errors import ModelError
from regionfed.models.extras import require

_BYTES_AT = 2
_SPELL = _BYTES_AT + 256
_WORDS_AT = _SPELL + 1


class TextTokenizer(ABC):
    """Ids of a text. `size` ids exist; `pad_id` and `eos_id` are two of them."""

    size: int
    pad_id: int
    eos_id: int

    @abstractmethod
    def encode(self, text: str, *, limit: int) -> list[int]:
        """At most `limit` ids; the last one is `eos_id`."""

    @abstractmethod
    def encode_words(self, words: Sequence[str], *, limit: int) -> tuple[list[int], list[int]]:
        """At most `limit` ids, and the position of the first id of every word that fits."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids up to `eos_id`."""

    @abstractmethod
    def tag_ids(self, labels: Sequence[str]) -> tuple[int, ...] | None:
        """One id for each tag, or None where tags can only be written as text."""


class WordTokenizer(TextTokenizer):
    """A word is one id; a word outside the vocabulary is spelt in bytes, so nothing is lost.

    Ids: 0 padding (and decoder start), 1 end, 256 bytes, one mark before a spelt word, then the
    words in the order given.
    """

    pad_id = 0
    eos_id = 1

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(dict.fromkeys(words))
        self._id = {word: _WORDS_AT + place for place, word in enumerate(self.words)}
        self.size = _WORDS_AT + len(self.words)

    def _word(self, word: str) -> list[int]:
        known = self._id.get(word)
        if known is not None:
            return [known]
        return [_SPELL, *(_BYTES_AT + byte for byte in word.encode())]

    def encode(self, text: str, *, limit: int) -> list[int]:
        ids: list[int] = []
        for word in text.split():
            if len(ids) >= limit:
                break
            ids += self._word(word)
        return [*ids[: limit - 1], self.eos_id]

    def encode_words(self, words: Sequence[str], *, limit: int) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        first: list[int] = []
        for word in words:
            if len(ids) >= limit - 1:
                break
            first.append(len(ids))
            ids += self._word(word)
        return [*ids[: limit - 1], self.eos_id], first

    def decode(self, ids: Sequence[int]) -> str:
        words: list[str] = []
        spelt: bytearray | None = None
        for id_ in [*ids, self.eos_id]:
            if _BYTES_AT <= id_ < _SPELL:
                spelt = bytearray() if spelt is None else spelt
                spelt.append(id_ - _BYTES_AT)
                continue
            if spelt:
                words.append(spelt.decode(errors="replace"))
            spelt = None
            if id_ == self.eos_id:
                break
            if _WORDS_AT <= id_ < self.size:
                words.append(self.words[id_ - _WORDS_AT])
        return " ".join(words)

    def tag_ids(self, labels: Sequence[str]) -> tuple[int, ...] | None:
        known = [self._id.get(label) for label in labels]
        return tuple(id_ for id_ in known if id_ is not None) if None not in known else None


class PretrainedTokenizer(TextTokenizer):
    """A tokenizer that transformers loads from a folder or by hub name.

    Tags take the sentinels of a T5 vocabulary (`<extra_id_0>` ...), one each, where it has enough
    of them.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.inner = tokenizer
        self.size = len(tokenizer)
        eos = tokenizer.eos_token_id
        if eos is None:
            eos = tokenizer.sep_token_id
        if eos is None:
            raise ModelError(
                f"tokenizer {tokenizer.name_or_path!r} has neither an end-of-sequence nor a "
                "separator token, so an answer could not end; choose another tokenizer"
            )
        self.eos_id = int(eos)
        pad = tokenizer.pad_token_id
        self.pad_id = int(eos if pad is None else pad)

    def encode(self, text: str, *, limit: int) -> list[int]:
        ids = list(self.inner(text, add_special_tokens=True)["input_ids"])
        while ids and ids[-1] == self.eos_id:
            ids.pop()
        return [*ids[: limit - 1], self.eos_id]

    def encode_words(self, words: Sequence[str], *, limit: int) -> tuple[list[int], list[int]]:
        coded = self.inner(list(words), is_split_into_words=True, truncation=True, max_length=limit)
        first: dict[int, int] = {}
        for place, word in enumerate(coded.word_ids()):
            if word is not None:
                first.setdefault(word, place)
        # A word that leaves no piece (a lone control character) borrows the next one's place.
        last = max(first, default=-1)
        places: list[int] = []
        following = first[last] if first else 0
        for word in range(last, -1, -1):
            following = first.get(word, following)
            places.append(following)
        return list(coded["input_ids"]), places[::-1]

    def decode(self, ids: Sequence[int]) -> str:
        kept = list(ids)
        if self.eos_id in kept:
            kept = kept[: kept.index(self.eos_id)]
        return str(self.inner.decode(kept, skip_special_tokens=True)).strip()

    def tag_ids(self, labels: Sequence[str]) -> tuple[int, ...] | None:
        vocabulary = self.inner.get_vocab()
        ids = [vocabulary.get(f"<extra_id_{place}>") for place in range(len(labels))]
        return tuple(ids) if None not in ids else None


def load_tokenizer(
    name: str, *, revision: str | None = None, offline: bool = False
) -> PretrainedTokenizer:
    """Load a tokenizer by folder or hub name; environment variables in `name` are expanded.

    Raises `ModelError` when it is not there or has no fast form (needed to align tags and words).
    """
    transformers = require("transformers", extra="text", needed_for=f"tokenizer {name!r}")
    place = os.path.expanduser(os.path.expandvars(name))
    options: dict[str, Any] = {"local_files_only": offline or Path(place).is_dir()}
    if revision is not None:
        options["revision"] = revision
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            place, add_prefix_space=True, **options
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"tokenizer {place!r} cannot be loaded: {first_line}. Give tokenizer = 'words', a "
            "folder with tokenizer.json, or a hub name that this machine can reach"
        ) from error
    if not tokenizer.is_fast:
        raise ModelError(
            f"tokenizer {place!r} has no fast form (tokenizer.json), so tags cannot be aligned "
            "with words; convert it with transformers and save it to a folder"
        )
    return PretrainedTokenizer(tokenizer)
