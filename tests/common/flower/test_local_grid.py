"""The local grid and the exchange with a deadline (cases 8, 16, 17)."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from regionfed.errors import QuorumError
from regionfed.flower import adapter
from regionfed.flower.grid import DeadlineGrid
from regionfed.flower.local import Fault, LocalGrid


@pytest.fixture(autouse=True)
def _identity() -> None:
    adapter.adopt_identity(run_id=7)


def echo(message: Message) -> Message:
    node = message.metadata.dst_node_id
    message.content["order"]["seen"] = node
    arrays = ArrayRecord([np.full(3, node, np.float32)])
    return Message(RecordDict({"arrays": arrays}), reply_to=message)


def orders(nodes: Iterable[int]) -> list[Message]:
    content = RecordDict({"order": ConfigRecord({"round": 1})})
    return [Message(content, node, "train") for node in nodes]


def test_replies_come_in_sending_order_with_a_reason_for_every_other_node() -> None:
    inner = LocalGrid(dict.fromkeys(range(6), echo))
    inner.inject(1, Fault(silent=True))
    inner.inject(2, Fault(error="out of disk"))
    inner.inject(4, Fault(delay=30.0))
    grid = DeadlineGrid(inner, poll=0.005)

    replies = grid.exchange(orders([5, 0, 1, 2, 3, 4, 9]), deadline=0.3)

    assert replies.answered == (5, 0, 3)
    assert [float(r.content["arrays"]["0"].numpy()[0]) for r in replies.received] == [5, 0, 3]
    assert set(replies.errors) == {2, 9}
    assert "out of disk" in replies.errors[2]
    assert "not part of this grid" in replies.errors[9]
    assert replies.missing == (1, 4)


def test_an_exchange_ends_as_soon_as_all_have_answered() -> None:
    grid = DeadlineGrid(LocalGrid({1: echo, 2: echo}), poll=0.005)
    replies = grid.exchange(orders([1, 2]), deadline=60.0)
    assert replies.answered == (1, 2)
    assert replies.seconds < 5.0


def test_a_receiver_cannot_change_what_the_sender_holds() -> None:
    messages = orders([1, 2])
    DeadlineGrid(LocalGrid({1: echo, 2: echo}), poll=0.005).exchange(messages, deadline=5.0)
    assert dict(messages[0].content["order"]) == {"round": 1}


def test_a_late_answer_is_not_counted_in_the_next_exchange() -> None:
    inner = LocalGrid({1: echo, 2: echo})
    grid = DeadlineGrid(inner, poll=0.005)
    inner.inject(2, Fault(delay=0.3))
    first = grid.exchange(orders([1, 2]), deadline=0.1)
    inner.inject(2, Fault(silent=True))
    time.sleep(0.3)
    second = grid.exchange(orders([1, 2]), deadline=0.2)
    assert first.missing == (2,)
    assert second.answered == (1,)
    assert second.missing == (2,)


def test_streamed_replies_are_not_kept_and_few_are_held_while_one_node_is_late() -> None:
    pulled: list[int] = []

    class Counting(LocalGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            got = super().pull_messages(message_ids)
            pulled.extend(m.metadata.src_node_id for m in got)
            return got

    inner = Counting(dict.fromkeys(range(20), echo))
    inner.inject(0, Fault(delay=0.2))
    held: list[int] = []
    seen: list[int] = []

    def consume(reply: Message) -> None:
        seen.append(reply.metadata.src_node_id)
        held.append(len(pulled) - len(seen))

    grid = DeadlineGrid(inner, poll=0.005, window=4)
    replies = grid.exchange(orders(range(20)), deadline=10.0, on_reply=consume)

    assert seen == list(range(20))
    assert replies.received == ()
    assert max(held) < 4


def test_below_quorum_the_nodes_are_named() -> None:
    inner = LocalGrid({1: echo, 2: echo, 3: echo})
    inner.inject(2, Fault(silent=True))
    inner.inject(3, Fault(error="no data"))
    with pytest.raises(QuorumError, match=r"1 of 3 .* quorum is 2.*\[2\].*no data"):
        DeadlineGrid(inner, poll=0.005).exchange(orders([1, 2, 3]), deadline=0.1, quorum=2)


def test_an_exception_in_a_node_becomes_its_error() -> None:
    def broken(message: Message) -> Message:
        raise RuntimeError("boom")

    replies = DeadlineGrid(LocalGrid({1: broken, 2: echo}), poll=0.005).exchange(
        orders([1, 2]), deadline=5.0
    )
    assert replies.answered == (2,)
    assert "RuntimeError: boom" in replies.errors[1]


def test_a_batch_handler_sees_the_messages_that_were_pushed_together() -> None:
    batches: list[list[int]] = []

    def together(messages: list[Message]) -> Iterable[Message]:
        batches.append([m.metadata.dst_node_id for m in messages])
        for message in messages:
            if message.metadata.dst_node_id != 3:
                yield echo(message)

    inner = LocalGrid(dict.fromkeys(range(4), echo), batch_handler=together)
    inner.inject(1, Fault(silent=True))
    replies = DeadlineGrid(inner, poll=0.005).exchange(orders(range(4)), deadline=0.3)

    assert batches == [[0, 2, 3]]
    assert replies.answered == (0, 2)
    assert replies.missing == (1,)
    assert "no answer" in replies.errors[3]


def test_two_messages_to_one_node_are_refused() -> None:
    with pytest.raises(ValueError, match="one message per node"):
        DeadlineGrid(LocalGrid({1: echo})).exchange(orders([1, 1]))
