"""The role that registers nodes with a SuperLink, by name, from the public keys they handed in."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regionfed.checks.address import Address
from regionfed.deploy.settings import Settings, required
from regionfed.deploy.start import FLOWER_ENVIRONMENT
from regionfed.errors import ConfigError, IdentityError, TransportError

logger = logging.getLogger("regionfed.register")

CONNECTION = "tier"
CALL_SECONDS = 60.0
WAIT_SECONDS = 120.0
ALREADY = "already in use"
"""What Flower 1.39 says of a key that is registered."""


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
    ca = settings.identity / "ca.crt" if settings.tls else None
    command_line = FlowerCommand.prepare(settings.state / "register", runtime, ca=ca)
    for node in nodes:
        if not node.key.exists():
            raise IdentityError(
                f"the public key of {node.name} is not at {node.key}; have that site make it "
                "(`regionfed certs node`) and put its .pub file there"
            )
    command_line.wait()
    for node in nodes:
        new = command_line.register(node)
        logger.info("%s is registered%s", node.name, " now" if new else "")


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


@dataclass(frozen=True, slots=True)
class FlowerCommand:
    """Flower's command line, with a connection of its own to one SuperLink."""

    home: Path

    @classmethod
    def prepare(cls, home: Path, runtime: Address, *, ca: Path | None) -> FlowerCommand:
        """Write the connection into Flower's configuration in `home`."""
        home.mkdir(parents=True, exist_ok=True)
        security = "insecure = true" if ca is None else f"root-certificates = {json.dumps(str(ca))}"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f"address = {json.dumps(str(runtime))}\n{security}\n"
        )
        return cls(home)

    def wait(self) -> None:
        """Wait until the SuperLink answers. Raises `TransportError` after two minutes."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            result = self._call("supernode", "list", CONNECTION, "--format", "json")
            if result.returncode == 0:
                return
            if time.monotonic() >= end:
                raise TransportError(
                    f"the SuperLink did not list its nodes within {WAIT_SECONDS:g} s: "
                    f"{_words(result)}; is REGIONFED_RUNTIME its Runtime API?"
                )
            time.sleep(2.0)

    def register(self, node: Node) -> bool:
        """Register one node; False if its key is registered already.

        A key keeps the name under which it was first registered; the tier's app refuses a node
        that then calls itself something else. Raises `IdentityError` with Flower's reason.
        """
        result = self._call("supernode", "register", str(node.key), CONNECTION, "--name", node.name)
        if result.returncode == 0:
            return True
        if ALREADY in result.stdout + result.stderr:
            return False
        raise IdentityError(
            f"{node.name} could not be registered with the key {node.key}: {_words(result)}"
        )

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **FLOWER_ENVIRONMENT, "FLWR_HOME": str(self.home)}
        try:
            return subprocess.run(
                ["flwr", *words],
                env=environment,
                capture_output=True,
                text=True,
                timeout=CALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 1, "", f"no answer in {CALL_SECONDS:g} s")


def _words(result: subprocess.CompletedProcess[str]) -> str:
    return " ".join((result.stderr or result.stdout).split())[-400:]
