"""The role that registers nodes with a SuperLink, by name, from the public keys they handed in."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regionfed.deploy.settings import Settings, required
from regionfed.errors import ConfigError, IdentityError, TransportError
from regionfed.flower.adapter import Control, NodeFacts

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

    Raises `ConfigError` for a malformed list, `IdentityError` if a key is missing or refused,
    `TransportError` if the SuperLink does not answer in time.
    """
    runtime = required(settings.runtime, name="REGIONFED_RUNTIME", role="register")
    nodes = parse_nodes(environ.get("REGIONFED_NODES", ""))
    control = Control(str(runtime), ca=settings.identity / "ca.crt" if settings.tls else None)
    try:
        known = {facts.name for facts in await_nodes(control, deadline=WAIT_SECONDS)}
        absent = [node for node in nodes if node.name not in known and not node.key.exists()]
        for node in nodes:
            if node.name not in known and node not in absent:
                control.register_node(node.key, node.name)
                logger.info("%s is registered now", node.name)
    finally:
        control.close()
    if absent:
        raise IdentityError(
            f"no public key of {', '.join(f'{node.name} ({node.key})' for node in absent)}; have "
            "each site make it, put its .pub file there, and register again. The others are "
            "registered"
        )
    logger.info("all %d nodes are registered", len(nodes))


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
