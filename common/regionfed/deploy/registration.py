"""The role that registers nodes with a SuperLink, by name, from the public keys they handed in."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regionfed.deploy.settings import Settings, required
from regionfed.errors import ConfigError, IdentityError, TransportError
from regionfed.flower.adapter import Control, NodeFacts, read_public_key

logger = logging.getLogger("regionfed.register")

WAIT_SECONDS = 120.0
LOOK_AGAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Node:
    """A node's name and the file of its public key."""

    name: str
    key: Path


def register_nodes(settings: Settings, environ: Mapping[str, str]) -> None:
    """Register every node of `REGIONFED_NODES` (`NAME=FILE` words) that is not yet registered.

    A registered node whose file now holds another key is refused, because whoever can write the
    file could take the node's place; named in `REGIONFED_REPLACE` it is registered anew and its old
    key is shut out.

    Raises `ConfigError` for a malformed list, `IdentityError` if a key is missing, refused or
    another one, `TransportError` if the SuperLink does not answer in time.
    """
    runtime = required(settings.runtime, name="REGIONFED_RUNTIME", role="register")
    nodes = parse_nodes(environ.get("REGIONFED_NODES", ""))
    replaced = environ.get("REGIONFED_REPLACE", "").split()
    control = Control(str(runtime), ca=settings.identity / "ca.crt" if settings.tls else None)
    try:
        known = {facts.name: facts for facts in await_nodes(control, deadline=WAIT_SECONDS)}
        problems = [_register(control, node, known.get(node.name), replaced) for node in nodes]
    finally:
        control.close()
    if any(problems):
        raise IdentityError("; ".join(filter(None, problems)) + ". The others are registered")
    logger.info("all %d nodes are registered", len(nodes))


def _register(control: Control, node: Node, known: NodeFacts | None, replaced: list[str]) -> str:
    """Make the SuperLink know a node; empty, or why it was not done."""
    if not node.key.exists():
        if known is not None:
            return ""
        return (
            f"no public key of {node.name} ({node.key}); have the site make it, put its .pub file "
            "there, and register again"
        )
    if known is not None:
        if known.public_key == read_public_key(node.key):
            return ""
        if node.name not in replaced:
            return (
                f"{node.key} is not the key under which {node.name} is registered; if its site "
                f"made a new one, register again with REGIONFED_REPLACE={node.name}"
            )
        control.unregister_node(known.node_id)
        logger.warning("the old key of %s is shut out", node.name)
    control.register_node(node.key, node.name)
    logger.info("%s is registered now", node.name)
    return ""


def await_nodes(control: Control, *, deadline: float) -> list[NodeFacts]:
    """The nodes that a SuperLink knows; waits `deadline` seconds for it to start.

    Raises `TransportError` that says how often and why it failed.
    """
    end = time.monotonic() + deadline
    while True:
        try:
            return control.nodes()
        except TransportError as error:
            if time.monotonic() >= end:
                raise TransportError(
                    f"after {deadline:g} s: {error}; is REGIONFED_RUNTIME the SuperLink's Runtime "
                    "API?"
                ) from error
            time.sleep(LOOK_AGAIN_SECONDS)


def parse_nodes(text: str) -> list[Node]:
    """Read `NAME=FILE` words. Raises `ConfigError` that shows the word which is wrong."""
    nodes = []
    for word in text.split():
        name, equals, key = word.partition("=")
        if not (name and equals and key):
            raise ConfigError(
                f"REGIONFED_NODES: {word!r} is not NAME=FILE, for example "
                "r00=/public/r00/uplink.pub"
            )
        nodes.append(Node(name, Path(key)))
    if not nodes:
        raise ConfigError("REGIONFED_NODES is empty; give one NAME=FILE word for each node")
    return nodes
