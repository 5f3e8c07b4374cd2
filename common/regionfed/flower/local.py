"""A grid in one process: nodes are functions. The same apps run on it as behind a SuperLink."""

from __future__ import annotations

import copy
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from regionfed.errors import StateError
from regionfed.flower import adapter

Handler = Callable[[Message], Message]
BatchHandler = Callable[[list[Message]], Iterable[Message]]

CLIENT_APP_CRASHED = 2
"""Flower's error code for an exception in a ClientApp."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong at a node, for drills without processes.

    Args:
        delay: seconds by which its answers arrive late.
        silent: it never answers (and never works).
        error: it answers with this reason instead of a result.
    """

    delay: float = 0.0
    silent: bool = False
    error: str = ""


class LocalGrid(Grid):
    """Flower's grid over functions of this process.

    With one worker, nodes work one after another in the order of sending: the result does not
    depend on the machine's load and only one model is in memory at a time. A handler sees its own
    copy of the records (arrays are shared, they are immutable), as it would over a network, and an
    exception in it becomes an error reply.

    Args:
        nodes: what each node does, by node id.
        names: registered name per node id, shown by `get_nodes`.
        workers: nodes that work at the same time.
        batch_handler: takes all messages pushed together and yields their replies in any order,
            for batched training; a message that it leaves out is answered with an error.
    """

    def __init__(
        self,
        nodes: Mapping[int, Handler],
        *,
        names: Mapping[int, str] | None = None,
        workers: int = 1,
        batch_handler: BatchHandler | None = None,
    ) -> None:
        self.nodes = dict(nodes)
        self.names = dict(names or {})
        self.batch_handler = batch_handler
        self._faults: dict[int, Fault] = {}
        self._replies: dict[str, tuple[float, Message]] = {}
        self._lock = threading.Lock()
        self._serial = itertools.count(1)
        self._run: object | None = None
        self._work: queue.SimpleQueue[list[Message] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"local-node-{i}", daemon=True)
            for i in range(max(1, workers))
        ]
        for thread in self._threads:
            thread.start()

    def inject(self, node_id: int, fault: Fault | None) -> None:
        """Let a node fail from the next message on; None heals it."""
        if fault is None:
            self._faults.pop(node_id, None)
        else:
            self._faults[node_id] = fault

    def close(self) -> None:
        """End the worker threads once the work in hand is done."""
        for _ in self._threads:
            self._work.put(None)

    def set_run(self, run: object) -> None:
        """See Grid."""
        self._run = run

    @property
    def run(self) -> object:
        """See Grid. Raises StateError before `set_run`."""
        if self._run is None:
            raise StateError("this local grid has no run: call set_run first")
        return self._run

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
        return list(self.nodes)

    def get_nodes(self) -> list[object]:
        """See Grid; carries the registered names."""
        return [adapter.node_info(node, self.names.get(node, "")) for node in self.nodes]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """See Grid. Messages to a node that is not there are answered with an error."""
        ids: list[str] = []
        pushed: list[Message] = []
        for message in messages:
            message_id = f"local-{next(self._serial)}"
            ids.append(message_id)
            sent = _own_copy(message)
            adapter.set_message_id(sent, message_id)
            adapter.set_message_id(message, message_id)
            pushed.append(sent)
        able = [message for message in pushed if self._is_able(message)]
        if self.batch_handler is not None:
            if able:
                self._work.put(able)
        else:
            for message in able:
                self._work.put([message])
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """See Grid. A reply is handed out once."""
        now = time.monotonic()
        out: list[Message] = []
        with self._lock:
            for message_id in list(message_ids):
                entry = self._replies.get(message_id)
                if entry is not None and entry[0] <= now:
                    out.append(self._replies.pop(message_id)[1])
        return out

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """See Grid."""
        waiting = set(self.push_messages(messages))
        end = None if timeout is None else time.monotonic() + timeout
        out: list[Message] = []
        while waiting and (end is None or time.monotonic() < end):
            got = self.pull_messages(waiting)
            out += got
            waiting -= {reply.metadata.reply_to_message_id for reply in got}
            if not got:
                time.sleep(0.005)
        return out

    def _is_able(self, message: Message) -> bool:
        """Whether the node will work on the message; if not, settle its answer."""
        node = message.metadata.dst_node_id
        fault = self._faults.get(node, Fault())
        if fault.silent:
            return False
        if node not in self.nodes:
            self._fail(message, f"node {node} is not part of this grid")
            return False
        if fault.error:
            self._fail(message, fault.error)
            return False
        return True

    def _serve(self) -> None:
        while (batch := self._work.get()) is not None:
            if self.batch_handler is not None:
                self._serve_batch(batch)
            else:
                self._serve_one(batch[0])

    def _serve_one(self, message: Message) -> None:
        try:
            self._answer(message, self.nodes[message.metadata.dst_node_id](message))
        except Exception as error:
            self._fail(message, f"{type(error).__name__}: {error}")

    def _serve_batch(self, batch: list[Message]) -> None:
        assert self.batch_handler is not None
        waiting = {message.metadata.message_id: message for message in batch}
        reason = "the batch handler gave no answer for this node"
        try:
            for reply in self.batch_handler(batch):
                message = waiting.pop(reply.metadata.reply_to_message_id)
                self._answer(message, reply)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        for message in waiting.values():
            self._fail(message, reason)

    def _answer(self, message: Message, reply: Message) -> None:
        fault = self._faults.get(message.metadata.dst_node_id, Fault())
        with self._lock:
            self._replies[message.metadata.message_id] = (time.monotonic() + fault.delay, reply)

    def _fail(self, message: Message, reason: str) -> None:
        self._answer(message, Message(Error(CLIENT_APP_CRASHED, reason), reply_to=message))


def local_context(node: Mapping[str, str], run: Mapping[str, str]) -> Context:
    """What Flower tells an app of its node and its run, for an app that is called directly."""
    return Context(
        run_id=1, node_id=1, node_config=dict(node), state=RecordDict(), run_config=dict(run)
    )


def _own_copy(message: Message) -> Message:
    """A message whose records the receiver may change without the sender noticing."""
    twin = copy.copy(message)
    adapter.detach_metadata(twin)
    twin.content = RecordDict({name: record.copy() for name, record in message.content.items()})
    return twin
