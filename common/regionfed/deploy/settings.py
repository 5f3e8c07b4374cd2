"""The environment of a container, read once into typed settings.

`REGIONFED_...` variables (one underscore) say where a process is and whom it dials; the
configuration's own overrides are `REGIONFED__SECTION__KEY` (two). `docs/deployment.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regionfed.checks.address import Address, parse_address
from regionfed.errors import ConfigError

RUNTIME_PORT, FLEET_PORT, BRIDGE_PORT, METRICS_PORT = 9091, 9092, 9095, 9100
HEALTH = Address("127.0.0.1", 9099)
NODE_RUNTIME_PORT = 9094
"""Port of a SuperNode's own Runtime API; it listens on loopback only."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where this process is, whom it dials, what it binds.

    `identity` holds the site's own keys and certificates (`regionfed.identity.site`); `peer_ca`
    verifies the SuperLink that a SuperNode dials. Addresses that a role does not use are None.
    """

    tier: str
    region: str
    client: str
    identity: Path
    state: Path
    config: Path | None
    tls: bool
    peer_ca: Path
    fleet: Address | None
    runtime: Address | None
    bridge: Address | None
    bind_fleet: Address
    bind_runtime: Address
    bind_bridge: Address
    metrics: Address | None
    hosts: tuple[str, ...]
    start_deadline: float

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read the variables; `ConfigError` names one that is malformed."""

        def address(name: str) -> Address | None:
            text = environ.get(name, "")
            return parse_address(text, what=name) if text else None

        def bound(name: str, port: int) -> Address:
            return address(name) or Address("0.0.0.0", port)

        identity = Path(environ.get("REGIONFED_IDENTITY", "/identity"))
        config = environ.get("REGIONFED_CONFIG", "")
        return cls(
            tier=environ.get("REGIONFED_TIER", "global"),
            region=environ.get("REGIONFED_REGION", ""),
            client=environ.get("REGIONFED_CLIENT", ""),
            identity=identity,
            state=Path(environ.get("REGIONFED_STATE", "/state")),
            config=Path(config) if config else None,
            tls=_flag(environ, "REGIONFED_TLS", default=True),
            peer_ca=Path(environ.get("REGIONFED_PEER_CA", "") or identity / "ca.crt"),
            fleet=address("REGIONFED_FLEET"),
            runtime=address("REGIONFED_RUNTIME"),
            bridge=address("REGIONFED_BRIDGE"),
            bind_fleet=bound("REGIONFED_BIND_FLEET", FLEET_PORT),
            bind_runtime=bound("REGIONFED_BIND_RUNTIME", RUNTIME_PORT),
            bind_bridge=bound("REGIONFED_BIND_BRIDGE", BRIDGE_PORT),
            metrics=address("REGIONFED_METRICS"),
            hosts=tuple(environ.get("REGIONFED_HOSTS", "").replace(",", " ").split()),
            start_deadline=_seconds(environ, "REGIONFED_START_DEADLINE", default=600.0),
        )


def required(value: Address | None, *, name: str, role: str) -> Address:
    """`value`, or `ConfigError` that names the variable and the role."""
    if value is None:
        raise ConfigError(f"{name} is not set, but the role '{role}' dials it; set it to HOST:PORT")
    return value


def required_name(value: str, *, name: str, role: str) -> str:
    """`value` unless it is empty; then `ConfigError` that names the variable and the role."""
    if not value:
        raise ConfigError(f"{name} is not set, but the role '{role}' needs it; set it to the name")
    return value


def _flag(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environ.get(name, "").lower()
    if text in ("", "1", "true", "yes", "on"):
        return default if text == "" else True
    if text in ("0", "false", "no", "off"):
        return False
    raise ConfigError(f"{name} = {text!r} is neither yes nor no; set it to 1 or 0")


def _seconds(environ: Mapping[str, str], name: str, *, default: float) -> float:
    text = environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise ConfigError(f"{name} = {text!r} is not a number of seconds; set it to 0 or more")
    return value
