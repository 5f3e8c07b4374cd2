"""Who is behind a node id: names that a SuperLink registered, and what a node says of itself.

A registered name (`flwr supernode register --name`) is bound to the node's key and counts more
than the node's own word. It reads `REGION` for a coordinator and `REGION/CLIENT` for a client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import flwr
from flwr.app import ConfigRecord, Context, Message, RecordDict

from regionfed.errors import IdentityError, RegionFedError, TransportError
from regionfed.flower.grid import DeadlineGrid
from regionfed.version import __version__

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
    last_activated_at: str


OnProblem = Callable[[int, RegionFedError], None]


def identify(message: Message, context: Context) -> Message:
    """Answer a query with this node's own region, client and versions.

    The handler that both ClientApps mount with `@app.query()`. An app whose node was started
    without `region` in --node-config claims an empty region and is left out by name.
    """
    claim = ConfigRecord(
        {
            "region": str(context.node_config.get("region", "")),
            "client": str(context.node_config.get("client", "")),
            "version": __version__,
            "flwr": flwr.__version__,
        }
    )
    return Message(RecordDict({IDENTITY: claim}), reply_to=message)


def log_problem(node_id: int, problem: RegionFedError) -> None:
    """The default for nodes that are left out: a warning with the reason."""
    logger.warning("node %d is left out: %s", node_id, problem)


def resolve_names(
    grid: DeadlineGrid,
    deadline: float,
    *,
    known: Mapping[int, NodeName] | None = None,
    on_problem: OnProblem = log_problem,
) -> dict[int, NodeName]:
    """Name the nodes that are online, sorted by name.

    A node that is not in `known` (names found earlier, by node id) is asked once, registered or
    not, so that a node with another's name and a node of another version are noticed. A node is
    left out, through `on_problem`, when it claims another name than the registered one, claims
    none, has another version, or does not answer within `deadline` seconds. Of two nodes with one
    name, a registered one counts before one that only claims it, then the one that came last.
    """
    nodes: dict[int, Named] = {node.node_id: node for node in grid.get_nodes()}
    names = {i: name for i, name in (known or {}).items() if i in nodes}
    registered: dict[int, NodeName] = {}
    ask: list[int] = []
    for node_id in sorted(set(nodes) - set(names)):
        try:
            if nodes[node_id].name:
                registered[node_id] = NodeName.parse(nodes[node_id].name)
            ask.append(node_id)
        except IdentityError as problem:
            on_problem(node_id, problem)
    replies = grid.exchange([Message(RecordDict(), i, QUERY) for i in ask], deadline=deadline)
    for reply in replies.received:
        node_id = reply.metadata.src_node_id
        try:
            names[node_id] = _checked(reply, registered.get(node_id))
        except RegionFedError as problem:
            on_problem(node_id, problem)
    for node_id, reason in replies.errors.items():
        on_problem(node_id, TransportError(f"it could not say who it is: {reason}"))
    for node_id in replies.missing:
        shown = f"{registered[node_id]}: " if node_id in registered else ""
        on_problem(node_id, TransportError(f"{shown}no answer within {deadline:g} s"))
    return _without_doubles(names, nodes, on_problem=on_problem)


def _checked(reply: Message, registered: NodeName | None) -> NodeName:
    """The name of the node behind a reply. Raises IdentityError, TransportError."""
    record = reply.content.config_records.get(IDENTITY, ConfigRecord())
    claim = NodeName(str(record.get("region", "")), str(record.get("client", "")))
    if not claim.region:
        raise IdentityError(
            "it does not say which region it belongs to; start its SuperNode with "
            '--node-config \'region="NAME" client="NAME"\''
        )
    if registered is not None and claim != registered:
        raise IdentityError(f"its key is registered as {registered}, but it claims to be {claim}")
    versions = (record.get("version"), record.get("flwr"))
    if versions != (__version__, flwr.__version__):
        raise TransportError(
            f"{claim} runs regionfed {versions[0]} on flwr {versions[1]}, this side runs "
            f"regionfed {__version__} on flwr {flwr.__version__}; install the same version"
        )
    return claim


def _without_doubles(
    names: Mapping[int, NodeName], nodes: Mapping[int, Named], *, on_problem: OnProblem
) -> dict[int, NodeName]:
    def rank(node_id: int) -> tuple[bool, str, int]:
        return (bool(nodes[node_id].name), nodes[node_id].last_activated_at, node_id)

    best: dict[NodeName, int] = {}
    for node_id in sorted(names, key=rank):
        name = names[node_id]
        if name in best:
            on_problem(
                best[name],
                IdentityError(f"node {node_id} has come later as {name}; the older one is left"),
            )
        best[name] = node_id
    return {best[name]: name for name in sorted(best)}
