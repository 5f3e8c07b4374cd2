"""The Compose services of each tier.

Every tier has networks of its own. `TIER-core` joins the tier's own processes; a SuperLink binds its
Runtime and Control APIs to that network only, by a name (`TIER-superlink-core`) that no other
network knows. `TIER-fleet` joins the SuperLink with its nodes, which see nothing but the Fleet API.
The uplink is the one process of a region that is also on `global-fleet`.
"""

from __future__ import annotations

from regionfed.deploy.compose_parts import (
    DONE,
    HEALTHY,
    SCRATCH,
    Parts,
    Service,
    default_port,
    limits,
    starts_after,
    tier_kind,
    upper,
)
from regionfed.deploy.settings import BRIDGE_PORT, FLEET_PORT, METRICS_PORT, RUNTIME_PORT

RUNS_PATH = "/runs"
RUN_FOLDER = f"{RUNS_PATH}/${{REGIONFED_RUN:-run}}"
METRICS = f"0.0.0.0:{METRICS_PORT}"
SERVER = ("ca.crt", "server.crt", "server.key")
BRIDGE = ("ca.crt", "bridge.crt", "bridge.key")
CLIENT = ("node", "device.json")


def global_tier(parts: Parts) -> dict[str, Service]:
    """The global SuperLink, its superexec, and the service that runs the federation."""
    regions = list(parts.topology.regions)
    identities = {f"{region}-identity": DONE for region in regions} if parts.together else {}
    nodes = {region: f"/public/{region}/uplink.pub" for region in regions}
    below: dict[str, str] = {}
    if parts.together:
        # So that `docker compose up run` starts them, and the first round has them all.
        for region, clients in parts.topology.regions.items():
            names = ("uplink", "superexec", *clients)
            below |= {f"{region}-{name}": HEALTHY for name in names}
    return {
        "global-identity": parts.identity("server", "global", builds=True),
        "global-superlink": _superlink(parts, "server", "global"),
        "global-register": _register(parts, "server", "global", nodes, after=identities),
        "global-superexec": _superexec(parts, "server", "global"),
        "run": {
            **parts.start(parts.once, "server", "run"),
            "environment": parts.environment(
                REGIONFED_TIER="global",
                REGIONFED_RUNTIME=f"global-superlink:{RUNTIME_PORT}",
                REGIONFED_RUN_DIR=RUN_FOLDER,
            ),
            **starts_after({"global-superexec": HEALTHY, **below}),
            "networks": ["global-core"],
            **parts.keys.mount("global", "ca.crt", volumes=[f"runs:{RUNS_PATH}"]),
            "tmpfs": SCRATCH,
            **limits("1g"),
        },
    }


def region_tier(parts: Parts, region: str, *, builds: bool) -> dict[str, Service]:
    """A region's own processes and its uplink, without its clients."""
    clients = parts.topology.regions[region]
    bridge = f"{region}-coordinator:{BRIDGE_PORT}"
    nodes = {f"{region}/{name}": f"/public/{region}/clients/{name}.pub" for name in clients}
    identities = {f"{region}-{name}-identity": DONE for name in clients}
    identities = identities if parts.together else {}
    enrol = {f"{region}-enrol": _enrol(parts, region, identities)} if parts.topology.masked else {}
    return {
        f"{region}-identity": parts.identity("coordinator", region, builds=builds),
        **enrol,
        f"{region}-superlink": _superlink(parts, "coordinator", region),
        f"{region}-register": _register(parts, "coordinator", region, nodes, after=identities),
        f"{region}-coordinator": {
            **parts.start(parts.process, "coordinator", "coordinator"),
            "environment": parts.environment(
                REGIONFED_TIER="region",
                REGIONFED_REGION=region,
                REGIONFED_RUNTIME=f"{region}-superlink:{RUNTIME_PORT}",
                REGIONFED_BRIDGE=bridge,
                REGIONFED_HOSTS=f"{region}-coordinator",
                REGIONFED_HEALTH=f"tls:127.0.0.1:{BRIDGE_PORT}",
                REGIONFED_METRICS=METRICS,
            ),
            **starts_after({f"{region}-superlink": HEALTHY}),
            "networks": [f"{region}-core"],
            **parts.keys.mount(
                region, *SERVER, *BRIDGE[1:], volumes=[f"{region}-coordinator:/state"]
            ),
            **limits("1g"),
        },
        f"{region}-superexec": _superexec(parts, "coordinator", region),
        f"{region}-uplink": {
            **parts.start(parts.process, "coordinator", "uplink"),
            "environment": parts.environment(
                REGIONFED_TIER="region",
                REGIONFED_REGION=region,
                REGIONFED_FLEET=parts.fleet_address("global"),
                REGIONFED_PEER_CA="/public/global/ca.crt",
                REGIONFED_BRIDGE=bridge,
            ),
            **starts_after(
                {
                    f"{region}-coordinator": HEALTHY,
                    **({"global-register": DONE} if parts.together else {}),
                }
            ),
            "networks": [f"{region}-core", "global-fleet"],
            **parts.keys.mount(region, *BRIDGE, "node", volumes=[parts.keys.public]),
            "tmpfs": SCRATCH,
            **limits("2g"),
        },
    }


def client_tier(parts: Parts, region: str, client: str, *, builds: bool) -> dict[str, Service]:
    """One client of a region."""
    name = f"{region}-{client}"
    identity = parts.identity("client", region, client=client, builds=builds)
    register = {f"{region}-register": DONE} if parts.together else {}
    enrolled = parts.enrolled(region)
    return {
        f"{name}-identity": identity,
        name: {
            **parts.start(parts.process, "client", "client"),
            "environment": parts.environment(
                REGIONFED_TIER="client",
                REGIONFED_REGION=region,
                REGIONFED_CLIENT=client,
                REGIONFED_FLEET=parts.fleet_address(region),
                REGIONFED_PEER_CA=f"/public/{region}/ca.crt",
                REGIONFED_METRICS=METRICS,
                **enrolled,
            ),
            **starts_after(register),
            "networks": [f"{region}-fleet"],
            **parts.keys.mount(name, *CLIENT, volumes=[parts.keys.public, f"{name}:/state"]),
            **limits("2g"),
        },
    }


def _superlink(parts: Parts, image: str, tier: str) -> Service:
    """A tier's SuperLink, on the tier's own network and on that of its nodes."""
    service = {
        **parts.start(parts.process, image, "superlink"),
        "environment": parts.environment(
            REGIONFED_TIER=tier_kind(tier),
            REGIONFED_BIND_RUNTIME=f"{tier}-superlink-core:{RUNTIME_PORT}",
            REGIONFED_HOSTS=parts.superlink_hosts(tier),
        ),
        **starts_after({f"{tier}-identity": DONE} if parts.together else {}),
        "networks": {
            f"{tier}-core": {"aliases": [f"{tier}-superlink-core"]},
            f"{tier}-fleet": {},
        },
        **parts.keys.mount(tier, *SERVER, volumes=[f"{tier}-superlink:/state"]),
        **limits("1g"),
    }
    if not parts.together:
        port = f"${{REGIONFED_{upper(tier)}_PORT:-{default_port(tier)}}}"
        service["ports"] = [f"{port}:{FLEET_PORT}"]
    return service


def _superexec(parts: Parts, image: str, tier: str) -> Service:
    """What starts a tier's ServerApp; a region's is given the way to its daemon."""
    environment = {
        "REGIONFED_TIER": tier_kind(tier),
        "REGIONFED_RUNTIME": f"{tier}-superlink:{RUNTIME_PORT}",
    }
    volumes = [f"{tier}-superexec:/state"]
    after = {f"{tier}-superlink": HEALTHY}
    if tier == "global":
        volumes.append(f"runs:{RUNS_PATH}")
        environment["REGIONFED_RUN_DIR"] = RUN_FOLDER
        environment["REGIONFED_METRICS"] = METRICS
    else:
        environment["REGIONFED_REGION"] = tier
        environment["REGIONFED_BRIDGE"] = f"{tier}-coordinator:{BRIDGE_PORT}"
        after[f"{tier}-coordinator"] = HEALTHY
        if parts.topology.masked:
            environment |= parts.enrolled(tier)
            volumes.append(parts.keys.public)
            after |= {f"{tier}-enrol": DONE} if parts.together else {}
    return {
        **parts.start(parts.process, image, "superexec"),
        "environment": parts.environment(**environment),
        **starts_after(after),
        "networks": [f"{tier}-core"],
        **parts.keys.mount(tier, *(("ca.crt",) if tier == "global" else BRIDGE), volumes=volumes),
        **limits("3g"),
    }


def _register(
    parts: Parts, image: str, tier: str, nodes: dict[str, str], *, after: dict[str, str]
) -> Service:
    """Tells a tier's SuperLink the names and keys of its nodes."""
    return {
        **parts.start(parts.once, image, "register"),
        "environment": parts.environment(
            REGIONFED_TIER=tier_kind(tier),
            REGIONFED_RUNTIME=f"{tier}-superlink:{RUNTIME_PORT}",
            REGIONFED_NODES=" ".join(f"{name}={key}" for name, key in nodes.items()),
        ),
        **starts_after({f"{tier}-superlink": HEALTHY, **after}),
        "networks": [f"{tier}-core"],
        **parts.keys.mount(tier, "ca.crt", volumes=[parts.keys.public]),
        "tmpfs": SCRATCH,
        **limits("512m"),
    }


def _enrol(parts: Parts, region: str, after: dict[str, str]) -> Service:
    """Enrols the region's clients for secure aggregation, where its authority lies."""
    made = parts.keys.made_by(region, authority=True)
    # On separate hosts it is started by hand, once the clients have handed in their enrolments.
    own = {f"{region}-identity": DONE} if parts.together else {}
    return {
        **parts.start(parts.once, "coordinator", "enrol"),
        "environment": parts.environment(REGIONFED_TIER="region", REGIONFED_REGION=region),
        **starts_after({**own, **after}),
        "network_mode": "none",
        **made,
        "tmpfs": SCRATCH,
        **limits("1g"),
    }
