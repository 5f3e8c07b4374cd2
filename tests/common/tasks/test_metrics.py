"""Counts add up, and scores are what their names say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regionfed.data.types import Row
from regionfed.errors import DataError
from regionfed.tasks import metrics, registry
from regionfed.tasks.spec import TaskKind, TaskSpec

COLOURS = TaskSpec("colour", TaskKind.CLASSIFICATION, ("red", "green", "blue"), "colour:")
NER = registry.ner_task()
SPELL = registry.spell_task()


def rows(task: TaskSpec, *targets: str) -> list[Row]:
    return [Row(task.name, "x", target) for target in targets]


def test_accuracy_and_macro_f1_by_hand():
    counts = metrics.count(
        COLOURS, ["red", "red", "blue", "red"], rows(COLOURS, "red", "red", "blue", "green")
    )
    scores = metrics.score([COLOURS], counts)["colour"]
    assert scores["primary"] == scores["accuracy"] == 0.75
    # red: 2 of 2 found, 1 too many (F1 0.8); blue 1; green 0
    assert scores["macro_f1"] == pytest.approx((0.8 + 1 + 0) / 3)
    assert scores["rows"] == 4


def test_an_answer_that_is_no_label_is_wrong_and_no_class_of_the_mean():
    counts = metrics.count(COLOURS, ["pink", "red"], rows(COLOURS, "red", "red"))
    scores = metrics.score([COLOURS], counts)["colour"]
    assert scores["accuracy"] == 0.5
    assert scores["macro_f1"] == pytest.approx(2 / 3)


def test_text_is_exact_up_to_white_space():
    counts = metrics.count(SPELL, ["red  tire ", "red tyre"], rows(SPELL, "red tire", "red tire"))
    assert metrics.score([SPELL], counts)["spell"] == {
        "primary": 0.5,
        "exact_match": 0.5,
        "rows": 2.0,
    }


def test_token_f1_with_one_tag_each_is_the_share_of_right_tokens():
    counts = metrics.count(
        NER, ["brand product o", "product o"], rows(NER, "brand brand o", "product product")
    )
    scores = metrics.score([NER], counts)["ner"]
    assert scores["primary"] == scores["token_f1"] == pytest.approx(3 / 5)
    # without outside: tp brand 1, product 1; fp product 1; fn brand 1, product 1
    assert scores["entity_f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 2))
    assert scores["exact_match"] == 0


def test_missing_tags_are_misses_and_tags_too_many_false_alarms():
    short = metrics.score([NER], metrics.count(NER, ["brand"], rows(NER, "brand product o")))
    assert short["ner"]["token_f1"] == pytest.approx(2 * 1 / (2 * 1 + 0 + 2))
    long = metrics.score([NER], metrics.count(NER, ["brand o o"], rows(NER, "brand")))
    assert long["ner"]["token_f1"] == pytest.approx(2 * 1 / (2 * 1 + 2 + 0))
    empty = metrics.score([NER], metrics.count(NER, [""], rows(NER, "brand product")))
    assert empty["ner"]["token_f1"] == 0


def test_begin_and_inside_do_not_matter():
    bio = TaskSpec("own", TaskKind.TAGGING, ("O", "B-BRAND", "I-BRAND", "B-SIZE", "I-SIZE"), "own:")
    counts = metrics.count(bio, ["I-BRAND B-BRAND O"], rows(bio, "B-BRAND I-BRAND O"))
    scores = metrics.score([bio], counts)["own"]
    assert scores["token_f1"] == scores["macro_f1"] == 1
    assert scores["exact_match"] == 0


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        (COLOURS, st.sampled_from(["red", "green", "blue", "pink", ""])),
        (NER, st.lists(st.sampled_from([*NER.labels, "junk"]), max_size=4).map(" ".join)),
        (SPELL, st.sampled_from(["a", "b", "a b"])),
    ],
    ids=["classification", "tagging", "text"],
)
@given(data=st.data())
def test_scores_of_added_counts_equal_scores_of_the_whole(task, answer, data):
    targets = {
        "colour": st.sampled_from(COLOURS.labels),
        "ner": st.lists(st.sampled_from(NER.labels), min_size=1, max_size=4).map(" ".join),
        "spell": st.sampled_from(["a", "b", "a b"]),
    }[task.name]
    pairs = data.draw(st.lists(st.tuples(answer, targets), min_size=1, max_size=20))
    cut = data.draw(st.integers(0, len(pairs)))

    def counted(part):
        return metrics.count(task, [given for given, _ in part], rows(task, *(t for _, t in part)))

    whole = metrics.score([task], counted(pairs))
    summed = metrics.score([task], metrics.add([counted(pairs[:cut]), counted(pairs[cut:])]))
    assert summed == whole
    assert all(0 <= value <= 1 for key, value in whole[task.name].items() if key != "rows")


def test_overall_is_the_unweighted_mean_of_the_tasks_that_have_rows():
    counts = metrics.add(
        [
            metrics.count(COLOURS, ["red"] * 9, rows(COLOURS, *["red"] * 9)),
            metrics.count(SPELL, ["no"], rows(SPELL, "yes")),
        ]
    )
    scores = metrics.score([COLOURS, SPELL, NER], counts)
    assert list(scores) == ["colour", "spell"]
    assert metrics.overall(scores) == 0.5
    with pytest.raises(DataError, match="nothing was scored"):
        metrics.overall({})


def test_counts_of_no_rows_add_nothing():
    assert metrics.score([COLOURS], metrics.count(COLOURS, [], [])) == {}


def test_wrong_input_is_named():
    with pytest.raises(DataError, match="2 answers for 1 rows"):
        metrics.count(SPELL, ["a", "b"], rows(SPELL, "a"))
    with pytest.raises(DataError, match=r"score rows of \['ner'\]"):
        metrics.count(SPELL, ["a"], rows(NER, "o"))
    with pytest.raises(
        DataError, match=r"'mauve' is the answer of a row but not one of the labels"
    ):
        metrics.count(COLOURS, ["red"], rows(COLOURS, "mauve"))
