"""A grid with a deadline: one exchange of messages with many nodes, bounded in time and memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from regionfed.errors import QuorumError

logger = logging.getLogger(__name__)

OnReply = Callable[[Message], None]


@dataclass(frozen=True)
class Replies:
    """The outcome of one exchange.

    `received` holds the good replies in the order in which their messages were sent (empty when
    the exchange streamed them to `on_reply`); `answered` the nodes of good replies in that order;
    `errors` the reason per node that answered with an error or could not be asked; `missing` the
    nodes that were silent until the deadline.
    """

    received: tuple[Message, ...]
    answered: tuple[int, ...]
    errors: Mapping[int, str]
    missing: tuple[int, ...]
    seconds: float


@dataclass
class _Exchange:
    """Messages of one exchange, in sending order: what is still awaited and what came early."""

    nodes: list[int]
    awaited: dict[str, int]
    early: dict[int, Message] = field(default_factory=dict)
    settled: int = 0
    received: list[Message] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)


class DeadlineGrid(Grid):
    """Wraps any Flower grid; `exchange` is the one way in which the tiers talk to their nodes.

    Replies are handed on in the order of sending, whatever the order of arrival, so that sums do
    not depend on it. At most `window` replies are held at a time: the others wait at the SuperLink
    until their turn. A reply is matched by the id of its message, so an answer that comes after
    the deadline can never be counted in a later exchange.

    Args:
        inner: the grid that carries the messages.
        poll: seconds between looks for replies.
        deadline: seconds per exchange, unless the call says otherwise.
        window: replies pulled ahead of the one whose turn it is.
    """

    def __init__(
        self, inner: Grid, poll: float = 0.2, deadline: float = 300.0, *, window: int = 4
    ) -> None:
        self.inner = inner
        self.poll = poll
        self.deadline = deadline
        self.window = window

    def exchange(
        self,
        messages: Iterable[Message],
        *,
        deadline: float | None = None,
        quorum: int | None = None,
        on_reply: OnReply | None = None,
    ) -> Replies:
        """Send the messages, at most one per node, and gather the replies until the deadline.

        Ends early once every node has answered. With `on_reply`, good replies are handed to it one
        by one, in sending order, and are not kept. An exception of `on_reply` is not caught.

        Raises QuorumError, naming the nodes, when fewer than `quorum` good replies came.
        """
        start = time.monotonic()
        end = start + (self.deadline if deadline is None else deadline)
        state = self._push(list(messages))
        while state.settled < len(state.nodes):
            late = time.monotonic() >= end
            progressed = self._pull(state, late=late)
            progressed = self._settle(state, late=late, on_reply=on_reply) or progressed
            if not progressed:
                if late:
                    break
                time.sleep(max(0.0, min(self.poll, end - time.monotonic())))
        if quorum is not None and len(state.answered) < quorum:
            raise QuorumError(
                f"{len(state.answered)} of {len(state.nodes)} nodes answered, the quorum is "
                f"{quorum}. Silent for {end - start:g} s: {state.missing or 'none'}; "
                f"with an error: {state.errors or 'none'}."
            )
        return Replies(
            received=tuple(state.received),
            answered=tuple(state.answered),
            errors=state.errors,
            missing=tuple(state.missing),
            seconds=time.monotonic() - start,
        )

    def _push(self, messages: list[Message]) -> _Exchange:
        nodes = [message.metadata.dst_node_id for message in messages]
        if len(set(nodes)) != len(nodes):
            raise ValueError(f"an exchange sends one message per node, got nodes {nodes}")
        if not messages:
            return _Exchange(nodes=[], awaited={})
        ids = list(self.inner.push_messages(messages)) or [None] * len(nodes)
        state = _Exchange(nodes=nodes, awaited={})
        for node, message_id in zip(nodes, ids, strict=True):
            if message_id:
                state.awaited[message_id] = node
            else:
                state.errors[node] = "the SuperLink did not accept the message"
        return state

    def _pull(self, state: _Exchange, *, late: bool) -> bool:
        """Pull replies of the nodes whose turn is near; return whether any came.

        After the deadline the turn is taken node by node, so that what had arrived in time is
        still counted without being held all at once.
        """
        reach = 1 if late else self.window
        near = set(state.nodes[state.settled : state.settled + reach])
        wanted = [i for i, node in state.awaited.items() if node in near]
        if not wanted:
            return False
        came = False
        for reply in self.inner.pull_messages(wanted):
            node = state.awaited.pop(reply.metadata.reply_to_message_id, None)
            if node is None:
                logger.warning("an answer to an unknown message was dropped")
                continue
            state.early[node] = reply
            came = True
        return came

    def _settle(self, state: _Exchange, *, late: bool, on_reply: OnReply | None) -> bool:
        """Hand on the replies whose turn has come; return whether there were any."""
        before = state.settled
        while state.settled < len(state.nodes):
            node = state.nodes[state.settled]
            if node in state.early:
                self._take(state, node, on_reply)
            elif node not in state.errors:
                if not late:
                    break
                state.missing.append(node)
            state.settled += 1
            if late:
                break
        return state.settled > before

    def _take(self, state: _Exchange, node: int, on_reply: OnReply | None) -> None:
        reply = state.early.pop(node)
        if reply.has_error():
            state.errors[node] = f"{reply.error.reason or 'no reason'} (code {reply.error.code})"
            return
        if reply.metadata.src_node_id != node:
            state.errors[node] = f"answered by another node ({reply.metadata.src_node_id})"
            return
        state.answered.append(node)
        if on_reply is None:
            state.received.append(reply)
        else:
            on_reply(reply)

    # The rest is Flower's own interface, passed through.

    def set_run(self, run: object) -> None:
        """See Grid."""
        self.inner.set_run(run)

    @property
    def run(self) -> object:
        """See Grid."""
        return self.inner.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """See Grid."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """See Grid."""
        return list(self.inner.get_node_ids())

    def get_nodes(self) -> list[object]:
        """See Grid."""
        return list(self.inner.get_nodes())

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """See Grid."""
        return list(self.inner.push_messages(messages))

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """See Grid."""
        return list(self.inner.pull_messages(message_ids))

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """See Grid; unlike Flower's it always ends. Error replies are left out."""
        return self.exchange(messages, deadline=timeout).received
