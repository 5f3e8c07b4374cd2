"""The command line, environment and checks of each role. Pure: nothing is started here.

Flower's flags are those of flwr 1.39 (architecture section 4): a database and process isolation
make a SuperLink survive a kill; node authentication is on whenever TLS is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from regionfed.checks.address import Address
from regionfed.checks.target import Peer, Served, Target
from regionfed.deploy.settings import (
    HEALTH,
    NODE_RUNTIME_PORT,
    Settings,
    required,
    required_name,
)


@dataclass(frozen=True, slots=True)
class Launch:
    """What is started, with what is added to its environment, and what must hold before."""

    argv: tuple[str, ...]
    target: Target
    environment: dict[str, str] = field(default_factory=dict)


def superlink(settings: Settings) -> Launch:
    """A SuperLink: Fleet for its nodes; Runtime and Control for its own tier only."""
    database = settings.state / "superlink.db"
    argv = [
        "flower-superlink",
        *("--host", settings.bind_runtime.host),
        *("--port", str(settings.bind_runtime.port)),
        *("--fleet-api-address", str(settings.bind_fleet)),
        *("--health-server-address", str(HEALTH)),
        *("--database", str(database)),
        *("--isolation", "process"),
    ]
    if settings.tls:
        argv += [
            *("--ssl-ca-certfile", str(settings.identity / "ca.crt")),
            *("--ssl-certfile", str(settings.identity / "server.crt")),
            *("--ssl-keyfile", str(settings.identity / "server.key")),
            "--enable-supernode-auth",
        ]
    else:
        argv.append("--insecure")
    target = Target(
        role="superlink",
        binds=(("Fleet API", settings.bind_fleet), ("Runtime API", settings.bind_runtime)),
        served=_served(settings),
        folder=settings.state,
    )
    return Launch(tuple(argv), target)


def superexec(settings: Settings) -> Launch:
    """The process that starts the tier's ServerApp, away from its SuperLink."""
    runtime = required(settings.runtime, name="REGIONFED_RUNTIME", role="superexec")
    argv = [
        "flower-superexec",
        *("--runtime-api-address", str(runtime)),
        *("--health-server-address", str(HEALTH)),
        *_root(settings, own=True),
    ]
    peers = [_runtime_peer(settings, runtime)]
    if settings.bridge is not None:
        peers.append(_bridge_peer(settings, settings.bridge))
    target = Target(
        role="superexec",
        peers=tuple(peers),
        folder=settings.state,
        config=settings.config,
        region=settings.region,
    )
    return Launch(tuple(argv), target, _bridge_environment(settings))


def coordinator(settings: Settings) -> Launch:
    """A region's daemon: its desk, ledger and run keeper."""
    runtime = required(settings.runtime, name="REGIONFED_RUNTIME", role="coordinator")
    bridge = required(settings.bridge, name="REGIONFED_BRIDGE", role="coordinator")
    region = required_name(settings.region, name="REGIONFED_REGION", role="coordinator")
    argv = [
        "regionfed-coordinator",
        *("--region", region),
        *("--bind", str(settings.bind_bridge)),
        *("--advertise", str(bridge)),
        *("--state-dir", str(settings.state / "coordinator")),
        *("--superlink", str(runtime)),
    ]
    if settings.tls:
        argv += [
            *("--superlink-ca", str(settings.identity / "ca.crt")),
            *("--ca", str(settings.identity / "ca.crt")),
            *("--cert", str(settings.identity / "server.crt")),
            *("--key", str(settings.identity / "server.key")),
        ]
    else:
        argv.append("--insecure")
    target = Target(
        role="coordinator",
        peers=(_runtime_peer(settings, runtime),),
        binds=(("bridge", settings.bind_bridge),),
        served=_served(settings),
        folder=settings.state,
        config=settings.config,
        region=region,
    )
    return Launch(tuple(argv), target)


def uplink(settings: Settings) -> Launch:
    """A region's node at the global SuperLink: the only process that crosses between tiers."""
    bridge = required(settings.bridge, name="REGIONFED_BRIDGE", role="uplink")
    region = required_name(settings.region, name="REGIONFED_REGION", role="uplink")
    node = {"region": region, "bridge": str(bridge)}
    argv, fleet = _supernode(settings, role="uplink", node=node)
    target = Target(
        role="uplink",
        peers=(fleet, _bridge_peer(settings, bridge)),
        folder=settings.state,
        config=settings.config,
        region=region,
        extra_keys=_node_keys(settings),
    )
    return Launch(argv, target, _bridge_environment(settings))


def client(settings: Settings) -> Launch:
    """A client's node at its region's SuperLink."""
    region = required_name(settings.region, name="REGIONFED_REGION", role="client")
    name = required_name(settings.client, name="REGIONFED_CLIENT", role="client")
    argv, fleet = _supernode(settings, role="client", node={"region": region, "client": name})
    target = Target(
        role="client",
        peers=(fleet,),
        folder=settings.state,
        config=settings.config,
        region=region,
        client=name,
        extra_keys=_node_keys(settings),
        device=settings.identity / "device.json" if settings.tls else None,
    )
    state = {"REGIONFED_CLIENT_STATE": str(settings.state / "client")}
    return Launch(argv, target, state)


ROLES: dict[str, Callable[[Settings], Launch]] = {
    "superlink": superlink,
    "superexec": superexec,
    "coordinator": coordinator,
    "uplink": uplink,
    "client": client,
}


def _supernode(
    settings: Settings, *, role: str, node: dict[str, str]
) -> tuple[tuple[str, ...], Peer]:
    fleet = required(settings.fleet, name="REGIONFED_FLEET", role=role)
    values = " ".join(f"{key}={json.dumps(value)}" for key, value in node.items())
    argv = [
        "flower-supernode",
        *("--superlink", str(fleet)),
        *("--host", "127.0.0.1"),
        *("--port", str(NODE_RUNTIME_PORT)),
        *("--health-server-address", str(HEALTH)),
        *("--node-config", values),
        *_root(settings, own=False),
    ]
    if settings.tls:
        argv += ["--auth-supernode-private-key", str(settings.identity / "node")]
    peer = Peer(
        what="SuperLink",
        kind="fleet",
        address=fleet,
        ca=settings.peer_ca if settings.tls else None,
        node_key=settings.identity / "node" if settings.tls else None,
    )
    return tuple(argv), peer


def _root(settings: Settings, *, own: bool) -> tuple[str, ...]:
    if not settings.tls:
        return ("--insecure",)
    ca = settings.identity / "ca.crt" if own else settings.peer_ca
    return ("--root-certificates", str(ca))


def _served(settings: Settings) -> Served | None:
    if not settings.tls:
        return None
    return Served(
        certificate=settings.identity / "server.crt",
        key=settings.identity / "server.key",
        hosts=settings.hosts,
    )


def _runtime_peer(settings: Settings, address: Address) -> Peer:
    return Peer(
        what="SuperLink",
        kind="runtime",
        address=address,
        ca=settings.identity / "ca.crt" if settings.tls else None,
    )


def _bridge_peer(settings: Settings, address: Address) -> Peer:
    if not settings.tls:
        return Peer(what="coordinator daemon", kind="bridge", address=address)
    return Peer(
        what="coordinator daemon",
        kind="bridge",
        address=address,
        ca=settings.identity / "ca.crt",
        certificate=settings.identity / "bridge.crt",
        key=settings.identity / "bridge.key",
    )


def _bridge_environment(settings: Settings) -> dict[str, str]:
    """Where the apps that this process starts find the daemon (`regionfed.bridge.connect`)."""
    if settings.bridge is None or not settings.tls:
        return {}
    return {
        "REGIONFED_BRIDGE_CA": str(settings.identity / "ca.crt"),
        "REGIONFED_BRIDGE_CERT": str(settings.identity / "bridge.crt"),
        "REGIONFED_BRIDGE_KEY": str(settings.identity / "bridge.key"),
    }


def _node_keys(settings: Settings) -> tuple[Path, ...]:
    return (settings.identity / "node",) if settings.tls else ()
