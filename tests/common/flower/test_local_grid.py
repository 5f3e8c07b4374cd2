"""The local grid, and the exchange over it: deadlines, faults, late answers (cases 8, 16, 17)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from regionfed.errors import UpdateError
from regionfed.flower import adapter
from regionfed.flower.ask import Answers, ask
from regionfed.flower.local import Fault, LocalGrid
from regionfed.flower.roster import Roster


@pytest.fixture(autouse=True)
def _identity() -> None:
    adapter.adopt_identity(run_id=7)


def echo(message: Message) -> Message:
    node = message.metadata.dst_node_id
    message.content["order"]["seen"] = node
    arrays = ArrayRecord([np.full(3, node, np.float32)])
    return Message(RecordDict({"arrays": arrays}), reply_to=message)


def order() -> RecordDict:
    return RecordDict({"order": ConfigRecord({"round": 1})})


def orders(nodes: Iterable[int]) -> list[Message]:
    content = order()
    return [Message(content, node, "train") for node in nodes]


class Exchange:
    """`ask` over nodes named c1, c2, ..., collecting what it hands on."""

    def __init__(self, grid: LocalGrid) -> None:
        self.grid = grid
        self.roster = Roster(grid, lambda grid, ids: {i: f"c{i}" for i in ids})
        self.heard: dict[str, float] = {}

    def __call__(self, *nodes: int, deadline: float) -> Answers:
        def on_answer(name: str, content: RecordDict) -> None:
            value = float(content.array_records["arrays"]["0"].numpy()[0])
            if value == 13:
                raise UpdateError("13 is not a number")
            self.heard[name] = value

        wanted: Mapping[str, RecordDict] = {f"c{node}": order() for node in nodes}
        return ask(
            self.grid,
            self.roster,
            wanted,
            message_type="train",
            group="1",
            deadline=deadline,
            poll=0.005,
            on_answer=on_answer,
        )


def test_every_node_is_answered_or_left_out_with_a_reason() -> None:
    grid = LocalGrid(dict.fromkeys([1, 2, 3, 4, 13], echo))
    grid.inject(2, Fault(silent=True))
    grid.inject(3, Fault(error="out of disk"))
    grid.inject(4, Fault(delay=30.0))
    exchange = Exchange(grid)
    answers = exchange(1, 2, 3, 4, 9, 13, deadline=0.4)
    assert answers.answered == ["c1"]
    assert exchange.heard == {"c1": 1.0}
    assert answers.left_out["c13"] == "13 is not a number"
    assert "out of disk" in answers.left_out["c3"]
    assert "not connected" in answers.left_out["c9"]
    assert "no answer" in answers.left_out["c2"]
    assert "no answer" in answers.left_out["c4"]


def test_case_17_a_late_answer_is_not_counted_in_the_next_exchange() -> None:
    grid = LocalGrid({1: echo, 2: echo})
    exchange = Exchange(grid)
    grid.inject(2, Fault(delay=0.3))
    first = exchange(1, 2, deadline=0.1)
    grid.inject(2, Fault(silent=True))
    time.sleep(0.3)
    second = exchange(1, 2, deadline=0.2)
    assert first.answered == second.answered == ["c1"]


def test_an_exchange_ends_as_soon_as_all_have_answered() -> None:
    answers = Exchange(LocalGrid({1: echo, 2: echo}))(1, 2, deadline=60.0)
    assert answers.answered == ["c1", "c2"]
    assert answers.seconds < 5.0


def test_one_worker_works_in_the_order_of_sending() -> None:
    worked: list[int] = []

    def note(message: Message) -> Message:
        worked.append(message.metadata.dst_node_id)
        return echo(message)

    grid = LocalGrid(dict.fromkeys(range(5), note))
    replies = grid.send_and_receive(orders([3, 1, 4, 0, 2]), timeout=10.0)
    assert worked == [3, 1, 4, 0, 2]
    assert sorted(r.metadata.src_node_id for r in replies) == [0, 1, 2, 3, 4]


def test_a_receiver_cannot_change_what_the_sender_holds() -> None:
    messages = orders([1, 2])
    LocalGrid({1: echo, 2: echo}).send_and_receive(messages, timeout=5.0)
    assert dict(messages[0].content["order"]) == {"round": 1}


def test_an_exception_in_a_node_becomes_its_error() -> None:
    def broken(message: Message) -> Message:
        raise RuntimeError("boom")

    (reply,) = LocalGrid({1: broken}).send_and_receive(orders([1]), timeout=5.0)
    assert reply.has_error()
    assert reply.error.reason == "RuntimeError: boom"


def test_a_node_that_is_not_there_answers_with_an_error() -> None:
    (reply,) = LocalGrid({1: echo}).send_and_receive(orders([9]), timeout=5.0)
    assert "not part of this grid" in (reply.error.reason or "")


def test_a_reply_is_handed_out_once_and_only_to_its_message() -> None:
    grid = LocalGrid({1: echo})
    first, second = grid.push_messages(orders([1])), grid.push_messages(orders([1]))
    end = time.monotonic() + 5.0
    got: list[Message] = []
    while not got and time.monotonic() < end:
        got = grid.pull_messages(second)
    assert [reply.metadata.reply_to_message_id for reply in got] == second
    assert grid.pull_messages(second) == []
    assert len(grid.pull_messages(first)) == 1


def test_a_batch_handler_sees_the_messages_that_were_pushed_together() -> None:
    batches: list[list[int]] = []

    def together(messages: list[Message]) -> Iterable[Message]:
        batches.append([m.metadata.dst_node_id for m in messages])
        for message in messages:
            if message.metadata.dst_node_id != 3:
                yield echo(message)

    grid = LocalGrid(dict.fromkeys(range(4), echo), batch_handler=together)
    grid.inject(1, Fault(silent=True))
    replies = grid.send_and_receive(orders(range(4)), timeout=0.3)
    assert batches == [[0, 2, 3]]
    good = sorted(r.metadata.src_node_id for r in replies if r.has_content())
    assert good == [0, 2]
    (bad,) = [r for r in replies if r.has_error()]
    assert "no answer" in (bad.error.reason or "")


def test_registered_names_are_shown() -> None:
    nodes = LocalGrid({1: echo}, names={1: "north/c1"}).get_nodes()
    assert [(n.node_id, n.name) for n in nodes] == [(1, "north/c1")]
