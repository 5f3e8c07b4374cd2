"""Who is behind a node id: names that a SuperLink registered, and what a node says of itself.

A registered name (`flwr supernode register --name`) is bound to the node's key and counts more
than the node's own word. It reads `REGION` for a coordinator and `REGION/CLIENT` for a client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid

from regionfed.errors import IdentityError, RegionFedError, TransportError
from regionfed.version import Versions, own_versions

logger = logging.getLogger(__name__)

IDENTITY = "identity"
"""Name of the record with which a node says who it is."""

QUERY = "query"
"""Message type that `identify` answers: mount it with `@app.query()`."""


@dataclass(frozen=True, order=True)
class NodeName:
    """A node's place in the federation. A coordinator has no `client`."""

    region: str
    client: str = ""

    def __str__(self) -> str:
        return f"{self.region}/{self.client}" if self.client else self.region

    @classmethod
    def parse(cls, text: str) -> NodeName:
        """Read `REGION` or `REGION/CLIENT`. Raises IdentityError."""
        region, _, client = text.partition("/")
        if not region or "/" in client or (text.endswith("/")):
            raise IdentityError(
                f"registered node name {text!r} is not of the form REGION or REGION/CLIENT; "
                "register the node again with such a --name"
            )
        return cls(region, client)


class Named(Protocol):
    """What is read of Flower's node record."""

    node_id: int
    name: str


_POLL_S = 0.05
_REASK_S = 120.0
"""A silent node is asked again after this long: it may have died with the question in hand."""
_VALID_S = 600.0
"""Life of a question. An answer is good whenever it comes, and a client may be at work for long."""

OnProblem = Callable[[int, RegionFedError], None]


def identify(message: Message, context: Context) -> Message:
    """Answer a query with this node's own region, client and versions.

    The handler that both ClientApps mount with `@app.query()`. An app whose node was started
    without `region` in --node-config claims an empty region and is left out by name.
    """
    own = own_versions()
    claim = ConfigRecord(
        {
            "region": str(context.node_config.get("region", "")),
            "client": str(context.node_config.get("client", "")),
            "version": own.regionfed,
            "flwr": own.flwr,
        }
    )
    return Message(RecordDict({IDENTITY: claim}), reply_to=message)


def log_problem(node_id: int, problem: RegionFedError) -> None:
    """The default for nodes that are left out: a warning with the reason."""
    logger.warning("node %d is left out: %s", node_id, problem)


class NameResolver:
    """Names nodes for a `Roster`: asks every new node once who it is, and checks the answer.

    Registered nodes are asked as well, so that a node with another's name and a node of another
    version are noticed. A node is left out, through `on_problem`, when its name does not fit the
    registered one or this tier, or its version does not fit ours. A call waits up to `wait`
    seconds for new answers; later ones are picked up by later calls, so a node that is silent
    does not hold up the others. A node that is silent for `deadline` seconds is reported; its
    answer still counts when it comes (a busy machine takes long to start an app), and it is asked
    again after two minutes.

    Args:
        accept: the roster's name of a node, given what it is; raises IdentityError for a node
            that has no place in this tier.
    """

    def __init__(
        self,
        accept: Callable[[NodeName], str],
        *,
        deadline: float = 60.0,
        wait: float = 10.0,
        on_problem: OnProblem = log_problem,
    ) -> None:
        self._accept = accept
        self._deadline = deadline
        self._wait = min(wait, deadline)
        self._on_problem = on_problem
        self._asked: dict[str, _Question] = {}
        self._refused: set[int] = set()
        self._named: dict[int, str] = {}

    def __call__(self, grid: Grid, ids: Iterable[int]) -> dict[int, str]:
        """Names of those of the nodes that have said by now who they are."""
        wanted = set(ids)
        self._ask(grid, wanted - self._named.keys())
        end = time.monotonic() + self._wait
        while True:
            for reply in grid.pull_messages(list(self._asked)):
                question = self._asked.pop(reply.metadata.reply_to_message_id, None)
                if question is not None:
                    self._hear(question, reply)
            self._expire()
            waiting = any(q.node_id in wanted for q in self._asked.values())
            if not waiting or time.monotonic() >= end:
                return {i: self._named[i] for i in sorted(wanted & self._named.keys())}
            time.sleep(_POLL_S)

    def _ask(self, grid: Grid, ids: set[int]) -> None:
        asked = {question.node_id for question in self._asked.values()}
        todo = sorted(ids - asked - self._refused)
        if not todo:
            return
        nodes: Iterable[Named] = grid.get_nodes()
        names = {node.node_id: node.name for node in nodes}
        messages = [Message(RecordDict(), i, QUERY, ttl=_VALID_S) for i in todo]
        for node_id, message_id in zip(todo, grid.push_messages(messages), strict=True):
            if message_id:
                self._asked[message_id] = _Question(
                    node_id=node_id, registered=names.get(node_id, ""), since=time.monotonic()
                )

    def _hear(self, question: _Question, reply: Message) -> None:
        node_id = question.node_id
        try:
            if reply.has_error():
                raise TransportError(f"it could not say who it is: {reply.error.reason}")
            self._named[node_id] = self._accept(_checked(reply, question.registered))
        except IdentityError as problem:
            # A node keeps its id and its settings for life, so it is not asked again.
            self._refused.add(node_id)
            self._on_problem(node_id, problem)
        except RegionFedError as problem:
            self._on_problem(node_id, problem)

    def _expire(self) -> None:
        now = time.monotonic()
        for message_id, question in list(self._asked.items()):
            silent = now - question.since
            if silent >= self._deadline and not question.reported:
                question.reported = True
                name = f"registered as {question.registered}, " if question.registered else ""
                self._on_problem(
                    question.node_id,
                    TransportError(f"{name}did not say who it is within {self._deadline:g} s"),
                )
            if silent >= _REASK_S:
                del self._asked[message_id]


def region_resolver(
    *, deadline: float = 60.0, wait: float = 10.0, on_problem: OnProblem = log_problem
) -> NameResolver:
    """Names coordinators by their region, for the `Roster` of the global server."""

    def accept(name: NodeName) -> str:
        if name.client:
            raise IdentityError(f"{name} is a client, but it joined the global server")
        return name.region

    return NameResolver(accept, deadline=deadline, wait=wait, on_problem=on_problem)


def client_resolver(
    region: str, *, deadline: float = 60.0, wait: float = 10.0, on_problem: OnProblem = log_problem
) -> NameResolver:
    """Names the clients of one region, for the `Roster` of its coordinator."""

    def accept(name: NodeName) -> str:
        if name.region != region or not name.client:
            raise IdentityError(f"{name} is not a client of region {region!r}")
        return name.client

    return NameResolver(accept, deadline=deadline, wait=wait, on_problem=on_problem)


@dataclass
class _Question:
    node_id: int
    registered: str
    since: float
    reported: bool = False


def _checked(reply: Message, registered: str) -> NodeName:
    """The name of the node behind a reply. Raises IdentityError, TransportError."""
    record = reply.content.config_records.get(IDENTITY, ConfigRecord())
    claim = NodeName(str(record.get("region", "")), str(record.get("client", "")))
    if not claim.region:
        raise IdentityError(
            "it does not say which region it belongs to; start its SuperNode with "
            '--node-config \'region="NAME" client="NAME"\''
        )
    if registered and claim != NodeName.parse(registered):
        raise IdentityError(f"its key is registered as {registered}, but it claims to be {claim}")
    theirs = Versions(
        regionfed=str(record.get("version", "unknown")), flwr=str(record.get("flwr", "unknown"))
    )
    problem = own_versions().mismatch(theirs, name=str(claim))
    if problem:
        raise TransportError(problem)
    return claim
