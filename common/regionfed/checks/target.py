"""What a process dials, binds, reads and needs: the input of a set of checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from regionfed.checks.address import Address

Role = Literal["superlink", "superexec", "coordinator", "uplink", "client", "submit"]


@dataclass(frozen=True, slots=True)
class Peer:
    """An address that is dialled. Without `ca` it is dialled without TLS.

    `kind`: 'fleet' a SuperLink's API for nodes, 'runtime' its API for its own tier, 'bridge' a
    coordinator's daemon. `node_key` is the key that signs in to a 'fleet' peer, `certificate` and
    `key` are shown to a 'bridge' peer.
    """

    what: str
    kind: Literal["fleet", "runtime", "bridge"]
    address: Address
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    node_key: Path | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """The certificate that a process shows, and the names under which it is dialled."""

    certificate: Path
    key: Path
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """One process of one tier."""

    role: Role
    peers: tuple[Peer, ...] = ()
    binds: tuple[tuple[str, Address], ...] = ()
    served: Served | None = None
    folder: Path | None = None
    config: Path | None = None
    region: str = ""
    client: str = ""
    extra_keys: tuple[Path, ...] = field(default=())
    device: Path | None = None
