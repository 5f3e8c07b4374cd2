"""Words as sets of letter groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regionfed.models.letters import GROUPS, NO_GROUP, WIDEST, LetterVectors, bags_of, groups_of


def test_groups_are_the_same_everywhere() -> None:
    # The word, its letter and the two pairs with its ends.
    assert groups_of("a") == [2959, 7747, 6862, 5554]
    assert len(groups_of("steel")) == 1 + 5 + 6
    assert len(groups_of("x" * 200)) == WIDEST
    assert all(0 <= group < GROUPS for group in groups_of("çédille 鞋"))


def test_bags_are_filled_and_cut() -> None:
    bags, lengths = bags_of([["red", "shoes", "here"], [], ["a"]], limit=2)
    assert bags.shape == (3, 2, WIDEST)
    assert lengths.tolist() == [2, 0, 1]
    assert (bags[1] == NO_GROUP).all()
    assert (bags[2, 0] != NO_GROUP).sum() == 4
    empty, none = bags_of([], limit=4)
    assert empty.shape == (0, 1, WIDEST)
    assert none.shape == (0,)


def test_a_misspelt_word_is_closest_to_the_right_one() -> None:
    torch.manual_seed(0)
    right = ["steel", "stake", "toilet", "kitchen", "faucet", "garden", "window", "lumber"]
    vectors = LetterVectors(64, listed=right)
    typed, _ = bags_of(
        [["steele", "staek", "tiolet", "kichen", "fawcet", "gardn", "windwo"]], limit=9
    )
    with torch.no_grad():
        near = (vectors(typed)[0] @ vectors.listed().T).argmax(-1)
    assert [right[place] for place in near.tolist()] == right[:7]


def test_listed_words_have_the_vectors_of_read_ones() -> None:
    words = ["red", "antidisestablishmentarianism", "a"]
    vectors = LetterVectors(8, listed=words)
    bags, _ = bags_of([words], limit=3)
    torch.testing.assert_close(vectors(bags)[0], vectors.listed())
    assert vectors(torch.full((1, 1, WIDEST), NO_GROUP)).abs().sum() == 0
    assert list(vectors.state_dict()) == ["weight"]


@pytest.mark.parametrize("listed", [False, True])
def test_filling_teaches_nothing(listed: bool) -> None:
    vectors = LetterVectors(4, listed=["red"])
    bags, _ = bags_of([["red"], ["red", "red"]], limit=2)
    (vectors.listed() if listed else vectors(bags)).sum().backward()
    touched = np.flatnonzero(vectors.weight.grad.abs().sum(1).numpy())
    assert set(touched.tolist()) == set(groups_of("red"))
