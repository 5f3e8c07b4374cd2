"""One exchange with named nodes: who answers counts once, who does not is named with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid

from regionfed.errors import UpdateError
from regionfed.flower import adapter
from regionfed.flower import ask as ask_module
from regionfed.flower.ask import Answers, ask
from regionfed.flower.local import Fault, LocalGrid
from regionfed.flower.roster import Roster
from regionfed.messages import Refusal


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter.adopt_identity(run_id=1)
    monkeypatch.setattr(ask_module, "ROLL_CALL_SECONDS", 0.05)


@dataclass
class Node:
    name: str
    asked: int = 0

    def __call__(self, message: Message) -> Message:
        self.asked += 1
        content = RecordDict({"arrays": ArrayRecord({"w": Array(np.ones(4, dtype=np.float32))})})
        return Message(content, reply_to=message)


def naming(names: dict[int, str]) -> Callable[[Grid, Iterable[int]], Mapping[int, str]]:
    return lambda grid, ids: {node: names[node] for node in ids if node in names}


def run(
    grid: LocalGrid,
    names: dict[int, str],
    wanted: list[str],
    *,
    deadline: float = 5.0,
    on_answer: Callable[[str, RecordDict], None] = lambda name, record: None,
) -> Answers:
    roster = Roster(grid, naming(names))
    return ask(
        grid,
        roster,
        dict.fromkeys(wanted, RecordDict()),
        message_type="train",
        group="1",
        deadline=deadline,
        poll=0.005,
        on_answer=on_answer,
    )


def test_everybody_answers_and_bytes_are_counted() -> None:
    names = {1: "b", 2: "a"}
    grid = LocalGrid({node: Node(name) for node, name in names.items()})
    seen: list[str] = []
    result = run(grid, names, ["a", "b"], on_answer=lambda name, record: seen.append(name))
    assert result.answered == ["a", "b"]
    assert sorted(seen) == ["a", "b"]
    assert result.left_out == {}
    assert result.bytes_up >= 2 * 16


def test_a_silent_node_is_left_out_by_name_at_the_deadline() -> None:
    names = {1: "a", 2: "b"}
    grid = LocalGrid({node: Node(name) for node, name in names.items()})
    grid.inject(2, Fault(silent=True))
    result = run(grid, names, ["a", "b"], deadline=0.3)
    assert result.answered == ["a"]
    assert result.left_out == {"b": "no answer within 0 s"}


def test_a_node_that_never_joined_is_named_as_such() -> None:
    grid = LocalGrid({1: Node("a")})
    result = run(grid, {1: "a"}, ["a", "ghost"], deadline=0.2)
    assert result.left_out == {"ghost": "not connected before the deadline"}


def test_an_unusable_answer_leaves_its_sender_out_with_the_reason() -> None:
    names = {1: "a", 2: "b"}
    grid = LocalGrid({node: Node(name) for node, name in names.items()})

    def on_answer(name: str, record: RecordDict) -> None:
        if name == "b":
            raise UpdateError("update holds NaN or infinity")

    result = run(grid, names, ["a", "b"], on_answer=on_answer)
    assert result.answered == ["a"]
    assert result.left_out == {"b": "update holds NaN or infinity"}


def test_a_refusal_is_the_reason() -> None:
    def refuse(message: Message) -> Message:
        return Message(Refusal("DataError", "no such column").to_record(), reply_to=message)

    grid = LocalGrid({1: refuse})
    assert run(grid, {1: "a"}, ["a"]).left_out == {"a": "no such column"}


def test_a_node_that_fails_is_asked_again_and_then_named() -> None:
    attempts = []

    def flaky(message: Message) -> Message:
        attempts.append(1)
        if len(attempts) < 3:
            raise RuntimeError("killed")
        return Node("a")(message)

    assert run(LocalGrid({1: flaky}), {1: "a"}, ["a"]).answered == ["a"]
    assert len(attempts) == 3

    def broken(message: Message) -> Message:
        raise RuntimeError("always")

    result = run(LocalGrid({1: broken}), {1: "a"}, ["a"])
    assert "always" in result.left_out["a"]


def test_a_node_that_comes_back_under_another_id_is_asked_again_and_counted_once() -> None:
    names = {1: "a", 2: "a"}
    first, second = Node("a"), Node("a")
    grid = LocalGrid({1: first})
    grid.inject(1, Fault(silent=True))
    looks = 0
    original = grid.get_node_ids

    def ids() -> list[int]:
        nonlocal looks
        looks += 1
        if looks == 3:
            grid.nodes = {2: second}
        return original()

    grid.get_node_ids = ids  # type: ignore[method-assign]
    counted: list[str] = []
    result = run(grid, names, ["a"], on_answer=lambda name, record: counted.append(name))
    assert result.answered == ["a"]
    assert counted == ["a"]
    assert second.asked == 1


def test_case_17_a_late_answer_cannot_enter_a_later_exchange() -> None:
    names = {1: "a"}
    grid = LocalGrid({1: Node("a")})
    grid.inject(1, Fault(delay=0.3))
    assert run(grid, names, ["a"], deadline=0.1).answered == []
    grid.inject(1, None)
    counted: list[str] = []
    result = run(grid, names, ["a"], on_answer=lambda name, record: counted.append(name))
    assert result.answered == ["a"]
    assert counted == ["a"]


def test_the_newest_of_two_live_ids_holds_a_name() -> None:
    grid = LocalGrid({1: Node("a")})
    roster = Roster(grid, naming({1: "a", 2: "a"}))
    roster.refresh()
    assert roster.node_of("a") == 1
    grid.nodes[2] = Node("a")
    roster.refresh()
    assert roster.node_of("a") == 2
    del grid.nodes[2]
    roster.refresh()
    assert roster.node_of("a") == 1


def test_waiting_ends_with_those_who_are_there() -> None:
    grid = LocalGrid({1: Node("a")})
    roster = Roster(grid, naming({1: "a"}))
    assert roster.wait_for(["a", "b"], at_least=1, deadline=0.2) == ["a"]
