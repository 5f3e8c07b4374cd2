"""Who is behind a node id: names that a SuperLink registered, and what a node says of itself.

A registered name (`flwr supernode register --name`) is bound to the node's key and counts more
than the node's own word. It reads `REGION` for a coordinator and `REGION/CLIENT` for a client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import flwr
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid

from regionfed.errors import IdentityError, RegionFedError, TransportError
from regionfed.flower.grid import DeadlineGrid
from regionfed.flower.roster import Resolver
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
    grid: Grid,
    deadline: float,
    *,
    ids: Iterable[int] | None = None,
    on_problem: OnProblem = log_problem,
) -> dict[int, NodeName]:
    """Name the nodes with these ids (all that are online, unless given), sorted by name.

    Every node is asked, registered or not, so that a node with another's name and a node of
    another version are noticed. A node is left out, through `on_problem`, when it claims another
    name than the registered one, claims none, has another version, or does not answer within
    `deadline` seconds. Of two nodes with one name, a registered one counts before one that only
    claims it, then the one that came last.
    """
    wanted = None if ids is None else set(ids)
    nodes: dict[int, Named] = {
        node.node_id: node for node in grid.get_nodes() if wanted is None or node.node_id in wanted
    }
    names: dict[int, NodeName] = {}
    registered: dict[int, NodeName] = {}
    ask: list[int] = []
    for node_id in sorted(nodes):
        try:
            if nodes[node_id].name:
                registered[node_id] = NodeName.parse(nodes[node_id].name)
            ask.append(node_id)
        except IdentityError as problem:
            on_problem(node_id, problem)
    bounded = DeadlineGrid(grid, deadline=deadline)
    replies = bounded.exchange(
        [Message(RecordDict(), i, QUERY, ttl=max(1.0, deadline)) for i in ask]
    )
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


def region_resolver(*, deadline: float, on_problem: OnProblem = log_problem) -> Resolver:
    """Names coordinators by their region, for the `Roster` of the global server."""

    def resolve(grid: Grid, ids: Iterable[int]) -> dict[int, str]:
        found = resolve_names(grid, deadline, ids=ids, on_problem=on_problem)
        out: dict[int, str] = {}
        for node_id, name in found.items():
            if name.client:
                on_problem(
                    node_id,
                    IdentityError(f"{name} is a client, but it joined the global server"),
                )
            else:
                out[node_id] = name.region
        return out

    return resolve


def client_resolver(
    region: str, *, deadline: float, on_problem: OnProblem = log_problem
) -> Resolver:
    """Names the clients of one region, for the `Roster` of its coordinator."""

    def resolve(grid: Grid, ids: Iterable[int]) -> dict[int, str]:
        found = resolve_names(grid, deadline, ids=ids, on_problem=on_problem)
        out: dict[int, str] = {}
        for node_id, name in found.items():
            if name.region != region or not name.client:
                on_problem(node_id, IdentityError(f"{name} is not a client of region {region!r}"))
            else:
                out[node_id] = name.client
        return out

    return resolve


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
