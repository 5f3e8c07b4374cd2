"""Standard tasks and tasks of one's own."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from regionfed.data.sections import CustomTask
from regionfed.errors import ConfigError
from regionfed.tasks.registry import CHARACTERS, STANDARD, select_tasks
from regionfed.tasks.spec import TaskKind


def test_standard_tasks_have_the_shapes_of_the_benchmark():
    assert len(STANDARD["intent"].labels) == 8
    assert len(STANDARD["ner"].labels) == 6
    assert STANDARD["spell"].labels == ()
    assert len(STANDARD["sentiment"].labels) == 5
    assert len(STANDARD["characters"].labels) == len(CHARACTERS) == 62
    assert CHARACTERS[10] == "A"
    assert CHARACTERS[61] == "z"


def test_order_follows_the_configuration_and_custom_labels_replace():
    own = CustomTask(kind=TaskKind.CLASSIFICATION, labels=["yes", "no"])
    chosen = select_tasks(
        tuple(STANDARD.values()),
        chosen=["spell", "intent", "urgent"],
        custom={"urgent": own, "intent": own},
        source="files",
    )
    assert [task.name for task in chosen] == ["spell", "intent", "urgent"]
    assert chosen[1].labels == chosen[2].labels == ("yes", "no")
    assert chosen[2].prefix == "urgent:"


def test_unknown_task_lists_what_is_allowed():
    with pytest.raises(
        ConfigError, match=r"\['chess'\].*source 'builtin'.*allowed are \['spell'\]"
    ):
        select_tasks([STANDARD["spell"]], chosen=["chess"], custom={}, source="builtin")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "text", "labels": ["a", "b"]}, "has no labels"),
        ({"kind": "classification", "labels": ["a"]}, "at least two labels"),
        ({"kind": "tagging", "labels": ["o", "x", "o"]}, "names a label twice"),
    ],
)
def test_custom_tasks_are_checked(settings, message):
    with pytest.raises(ValidationError, match=message):
        CustomTask(**settings)
