"""Tokenizers lose nothing and know where words begin."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regionfed.errors import ModelError
from regionfed.models.tokens import WordTokenizer, load_tokenizer

WORDS = WordTokenizer(["red", "shoes", "B-X", "O"])


@given(st.lists(st.text(min_size=1).filter(lambda w: w.split() == [w]), max_size=6))
def test_words_come_back_whether_known_or_not(words: list[str]) -> None:
    clean = [word.encode("utf-8", "ignore").decode() or "x" for word in words]
    text = " ".join(clean)
    assert WORDS.decode(WORDS.encode(text, limit=4000)) == text


def test_a_known_word_is_one_id_and_an_unknown_one_is_spelt() -> None:
    assert len(WORDS.encode("red shoes", limit=9)) == 3
    assert len(WORDS.encode("rd", limit=9)) == 4


def test_length_is_bounded_and_ends() -> None:
    ids = WORDS.encode("unknown " * 5, limit=6)
    assert len(ids) == 6
    assert ids[-1] == WORDS.eos_id


def test_first_pieces_of_words() -> None:
    ids, first = WORDS.encode_words(["red", "ab", "shoes"], limit=20)
    assert first == [0, 1, 4]
    assert len(ids) == 6


def test_tags_have_ids_only_when_all_are_words() -> None:
    assert WORDS.tag_ids(["B-X", "O"]) is not None
    assert WORDS.tag_ids(["B-X", "B-Y"]) is None


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_tokenizer(str(tmp_path))
