"""One exchange with named nodes: a deadline, a reason for every missing answer, no double count.

Flower delivers a message to a node id. A process that died and came back may have a new id, and
a message that it had taken is not delivered again, so a node that reappears is asked again. The
first usable answer of a name counts; anything later is dropped here and can never reach a later
exchange, because an exchange only pulls answers to its own messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from regionfed.errors import RegionFedError
from regionfed.flower.roster import Roster
from regionfed.messages import Refusal, message_kind

ROLL_CALL_SECONDS = 3.0
"""How often an exchange looks whether a silent node has come back under another id."""
REASK_LIMIT = 5
"""How often one name is asked in one exchange."""
PULL_BYTES = 256 << 20
"""Answers of about this size are held at once, so that memory does not grow with the nodes."""


@dataclass
class Answers:
    """Who answered, in name order, and why each of the others did not."""

    answered: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0


@dataclass
class _Pending:
    node: int | None = None
    asked: int = 0
    away: bool = False
    last_error: str = ""


def record_bytes(record: RecordDict) -> int:
    """Bytes of the arrays of a record: what a hop carries, apart from small scalars."""
    return sum(len(a.data) for arrays in record.array_records.values() for a in arrays.values())


def ask(
    grid: Grid,
    roster: Roster,
    orders: Mapping[str, RecordDict],
    *,
    message_type: str,
    group: str,
    deadline: float,
    poll: float,
    on_answer: Callable[[str, RecordDict], None],
) -> Answers:
    """Send each name its order and hand answers to `on_answer` as they arrive.

    `on_answer` consumes an answer (so memory does not grow with clients) and raises a
    `RegionFedError` when it is unusable; the name is then left out with that reason. Returns
    after all names are settled or `deadline` seconds have passed.
    """
    started = time.monotonic()
    end = started + deadline
    result = Answers()
    pending = {name: _Pending() for name in orders}
    asked: dict[str, str] = {}
    next_roll = 0.0
    # An answer is about as large as its order.
    largest = max((record_bytes(order) for order in orders.values()), default=0)
    at_once = max(1, PULL_BYTES // max(1, largest))
    while pending:
        now = time.monotonic()
        if now >= end:
            break
        if now >= next_roll:
            roster.refresh()
            _send(grid, roster, orders, pending, asked, result, message_type, group, end - now)
            next_roll = now + ROLL_CALL_SECONDS
        waiting = list(asked)
        for first in range(0, len(waiting), at_once):
            for reply in grid.pull_messages(waiting[first : first + at_once]):
                name = asked.pop(reply.metadata.reply_to_message_id, None)
                if name is not None and name in pending:
                    _settle(reply, name, pending, result, on_answer)
        if pending:
            time.sleep(max(0.0, min(poll, end - time.monotonic())))
    for name, state in pending.items():
        if state.asked == 0:
            reason = "not connected before the deadline"
        else:
            reason = f"no answer within {deadline:.0f} s"
        result.left_out[name] = reason + (f" ({state.last_error})" if state.last_error else "")
    result.answered.sort()
    result.left_out = dict(sorted(result.left_out.items()))
    result.seconds = time.monotonic() - started
    return result


def _send(
    grid: Grid,
    roster: Roster,
    orders: Mapping[str, RecordDict],
    pending: dict[str, _Pending],
    asked: dict[str, str],
    result: Answers,
    message_type: str,
    group: str,
    ttl: float,
) -> None:
    """Ask every pending name whose node is there and has not been asked under its present id."""
    batch: list[tuple[str, Message]] = []
    for name in sorted(pending):
        state, node = pending[name], roster.node_of(name)
        if node is None:
            state.away = state.asked > 0
            continue
        if state.node == node and not state.away:
            continue
        if state.asked >= REASK_LIMIT:
            continue
        state.node, state.away = node, False
        state.asked += 1
        batch.append(
            (name, Message(orders[name], node, message_type, ttl=max(ttl, 1.0), group_id=group))
        )
    if not batch:
        return
    for (name, message), message_id in zip(
        batch, grid.push_messages([m for _, m in batch]), strict=True
    ):
        if message_id:
            asked[message_id] = name
            result.bytes_down += record_bytes(message.content)


def _settle(
    reply: Message,
    name: str,
    pending: dict[str, _Pending],
    result: Answers,
    on_answer: Callable[[str, RecordDict], None],
) -> None:
    state = pending[name]
    if not reply.has_content():
        # The node or its app failed on this message: it is asked again at the next roll call,
        # which covers a process that was killed and restarted.
        state.last_error = f"error {reply.error.code}: {reply.error.reason}"
        state.away = True
        if state.asked >= REASK_LIMIT:
            del pending[name]
            result.left_out[name] = state.last_error
        return
    del pending[name]
    content = reply.content
    result.bytes_up += record_bytes(content)
    if message_kind(content) == Refusal.__name__:
        result.left_out[name] = Refusal.from_record(content).reason
        return
    try:
        on_answer(name, content)
    except RegionFedError as error:
        result.left_out[name] = str(error)
        return
    result.answered.append(name)
