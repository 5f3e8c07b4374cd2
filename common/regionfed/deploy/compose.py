"""The Compose services of each tier.

Every tier has networks of its own. `TIER-core` joins the tier's own processes; a SuperLink binds its
Runtime and Control APIs to that network only, by a name (`TIER-superlink-core`) that no other
network knows. `TIER-fleet` joins the SuperLink with its nodes, which see nothing but the Fleet API.
The uplink is the one process of a region that is also on `global-fleet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regionfed.deploy.keys import KeyStore
from regionfed.deploy.settings import BRIDGE_PORT, FLEET_PORT, METRICS_PORT, RUNTIME_PORT
from regionfed.deploy.topology import Topology
from regionfed.deploy.yaml_text import MERGE, Anchored

Service = dict[str, Any]

CONFIG_PATH = "/config/federation.toml"
RUNS_PATH = "/runs"
RUN_FOLDER = f"{RUNS_PATH}/${{REGIONFED_RUN:-run}}"
METRICS = f"0.0.0.0:{METRICS_PORT}"
FEDERATION = {"source": "federation", "target": CONFIG_PATH}
SCRATCH = ["/tmp:mode=1777,size=64m", "/state:mode=1777,size=256m"]
SERVER = ("ca.crt", "server.crt", "server.key")
BRIDGE = ("ca.crt", "bridge.crt", "bridge.key")
CLIENT = ("node", "device.json")
HEALTHY, DONE = "service_healthy", "service_completed_successfully"


def process_defaults() -> Anchored:
    """What all long-lived processes have in common."""
    return Anchored(
        "process",
        {
            "init": True,
            "restart": "unless-stopped",
            "user": "${REGIONFED_UID:-10001}:0",
            "read_only": True,
            "tmpfs": ["/tmp:mode=1777,size=64m"],
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "stop_grace_period": "20s",
            "configs": [FEDERATION],
            "logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}},
        },
    )


def once_defaults(process: Anchored) -> Anchored:
    """What the services that do one thing and end have in common."""
    return Anchored("once", {MERGE: process, "restart": "no", "healthcheck": {"disable": True}})


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds services; the common parts are shared objects, written once as anchors.

    `keys` says how a site's keys reach its processes. `together` means that all tiers are in one
    file on one machine, which also builds the images; otherwise each site has its own file, Fleet
    APIs are published on the host, and images come from a registry.
    """

    topology: Topology
    process: Anchored
    once: Anchored
    keys: KeyStore
    together: bool = True

    def global_tier(self) -> dict[str, Service]:
        """The global SuperLink, its superexec, and the service that runs the federation."""
        regions = list(self.topology.regions)
        identities = {f"{region}-identity": DONE for region in regions} if self.together else {}
        nodes = {region: f"/public/{region}/uplink.pub" for region in regions}
        below: dict[str, str] = {}
        if self.together:
            # So that `docker compose up run` starts them, and the first round has them all.
            for region, clients in self.topology.regions.items():
                names = ("uplink", "superexec", *clients)
                below |= {f"{region}-{name}": HEALTHY for name in names}
        return {
            "global-identity": self._identity("server", "global", builds=True),
            "global-superlink": self._superlink("server", "global"),
            "global-register": self._register("server", "global", nodes, after=identities),
            "global-superexec": self._superexec("server", "global"),
            "run": {
                **self._start(self.once, "server", "run"),
                "environment": self._environment(
                    REGIONFED_TIER="global",
                    REGIONFED_RUNTIME=f"global-superlink:{RUNTIME_PORT}",
                    REGIONFED_RUN_DIR=RUN_FOLDER,
                ),
                **_after({"global-superexec": HEALTHY, **below}),
                "networks": ["global-core"],
                **self.keys.mount("global", "ca.crt", volumes=[f"runs:{RUNS_PATH}"]),
                "tmpfs": SCRATCH,
                **_limits("1g"),
            },
        }

    def region_tier(self, region: str, *, builds: bool) -> dict[str, Service]:
        """A region's own processes and its uplink, without its clients."""
        clients = self.topology.regions[region]
        bridge = f"{region}-coordinator:{BRIDGE_PORT}"
        nodes = {f"{region}/{name}": f"/public/{region}/clients/{name}.pub" for name in clients}
        identities = {f"{region}-{name}-identity": DONE for name in clients}
        identities = identities if self.together else {}
        enrol = {f"{region}-enrol": self._enrol(region, identities)} if self.topology.masked else {}
        return {
            f"{region}-identity": self._identity("coordinator", region, builds=builds),
            **enrol,
            f"{region}-superlink": self._superlink("coordinator", region),
            f"{region}-register": self._register("coordinator", region, nodes, after=identities),
            f"{region}-coordinator": {
                **self._start(self.process, "coordinator", "coordinator"),
                "environment": self._environment(
                    REGIONFED_TIER="region",
                    REGIONFED_REGION=region,
                    REGIONFED_RUNTIME=f"{region}-superlink:{RUNTIME_PORT}",
                    REGIONFED_BRIDGE=bridge,
                    REGIONFED_HOSTS=f"{region}-coordinator",
                    REGIONFED_HEALTH=f"tls:127.0.0.1:{BRIDGE_PORT}",
                    REGIONFED_METRICS=METRICS,
                ),
                **_after({f"{region}-superlink": HEALTHY}),
                "networks": [f"{region}-core"],
                **self.keys.mount(
                    region, *SERVER, *BRIDGE[1:], volumes=[f"{region}-coordinator:/state"]
                ),
                **_limits("1g"),
            },
            f"{region}-superexec": self._superexec("coordinator", region),
            f"{region}-uplink": {
                **self._start(self.process, "coordinator", "uplink"),
                "environment": self._environment(
                    REGIONFED_TIER="region",
                    REGIONFED_REGION=region,
                    REGIONFED_FLEET=self._fleet_address("global"),
                    REGIONFED_PEER_CA="/public/global/ca.crt",
                    REGIONFED_BRIDGE=bridge,
                ),
                **_after(
                    {
                        f"{region}-coordinator": HEALTHY,
                        **({"global-register": DONE} if self.together else {}),
                    }
                ),
                "networks": [f"{region}-core", "global-fleet"],
                **self.keys.mount(region, *BRIDGE, "node", volumes=[self.keys.public]),
                "tmpfs": SCRATCH,
                **_limits("2g"),
            },
        }

    def client_tier(self, region: str, client: str, *, builds: bool) -> dict[str, Service]:
        """One client of a region."""
        name = f"{region}-{client}"
        identity = self._identity("client", region, client=client, builds=builds)
        register = {f"{region}-register": DONE} if self.together else {}
        enrolled = self._enrolled(region)
        return {
            f"{name}-identity": identity,
            name: {
                **self._start(self.process, "client", "client"),
                "environment": self._environment(
                    REGIONFED_TIER="client",
                    REGIONFED_REGION=region,
                    REGIONFED_CLIENT=client,
                    REGIONFED_FLEET=self._fleet_address(region),
                    REGIONFED_PEER_CA=f"/public/{region}/ca.crt",
                    REGIONFED_METRICS=METRICS,
                    **enrolled,
                ),
                **_after(register),
                "networks": [f"{region}-fleet"],
                **self.keys.mount(name, *CLIENT, volumes=[self.keys.public, f"{name}:/state"]),
                **_limits("2g"),
            },
        }

    def _superlink(self, image: str, tier: str) -> Service:
        service = {
            **self._start(self.process, image, "superlink"),
            "environment": self._environment(
                REGIONFED_TIER=_tier(tier),
                REGIONFED_BIND_RUNTIME=f"{tier}-superlink-core:{RUNTIME_PORT}",
                REGIONFED_HOSTS=self._superlink_hosts(tier),
            ),
            **_after({f"{tier}-identity": DONE} if self.together else {}),
            "networks": {
                f"{tier}-core": {"aliases": [f"{tier}-superlink-core"]},
                f"{tier}-fleet": {},
            },
            **self.keys.mount(tier, *SERVER, volumes=[f"{tier}-superlink:/state"]),
            **_limits("1g"),
        }
        if not self.together:
            port = f"${{REGIONFED_{_upper(tier)}_PORT:-{_default_port(tier)}}}"
            service["ports"] = [f"{port}:{FLEET_PORT}"]
        return service

    def _superexec(self, image: str, tier: str) -> Service:
        environment = {
            "REGIONFED_TIER": _tier(tier),
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
            if self.topology.masked:
                environment |= self._enrolled(tier)
                volumes.append(self.keys.public)
                after |= {f"{tier}-enrol": DONE} if self.together else {}
        return {
            **self._start(self.process, image, "superexec"),
            "environment": self._environment(**environment),
            **_after(after),
            "networks": [f"{tier}-core"],
            **self.keys.mount(
                tier, *(("ca.crt",) if tier == "global" else BRIDGE), volumes=volumes
            ),
            **_limits("3g"),
        }

    def _register(
        self, image: str, tier: str, nodes: dict[str, str], *, after: dict[str, str]
    ) -> Service:
        return {
            **self._start(self.once, image, "register"),
            "environment": self._environment(
                REGIONFED_TIER=_tier(tier),
                REGIONFED_RUNTIME=f"{tier}-superlink:{RUNTIME_PORT}",
                REGIONFED_NODES=" ".join(f"{name}={key}" for name, key in nodes.items()),
            ),
            **_after({f"{tier}-superlink": HEALTHY, **after}),
            "networks": [f"{tier}-core"],
            **self.keys.mount(tier, "ca.crt", volumes=[self.keys.public]),
            "tmpfs": SCRATCH,
            **_limits("512m"),
        }

    def _enrol(self, region: str, after: dict[str, str]) -> Service:
        """Enrols the region's clients for secure aggregation, where its authority lies."""
        made = self.keys.made_by(region, authority=True)
        # On separate hosts it is started by hand, once the clients have handed in their enrolments.
        own = {f"{region}-identity": DONE} if self.together else {}
        return {
            **self._start(self.once, "coordinator", "enrol"),
            "environment": self._environment(REGIONFED_TIER="region", REGIONFED_REGION=region),
            **_after({**own, **after}),
            "network_mode": "none",
            **made,
            "tmpfs": SCRATCH,
            **_limits("1g"),
        }

    def _enrolled(self, region: str) -> dict[str, str]:
        """Where a process of the region finds the directory and the signed configurations."""
        return {"REGIONFED_ENROLMENT": f"/public/{region}"} if self.topology.masked else {}

    def _identity(self, image: str, tier: str, *, builds: bool, client: str = "") -> Service:
        site = f"{tier}-{client}" if client else tier
        environment = {"REGIONFED_TIER": "client" if client else _tier(tier)}
        if tier != "global":
            environment["REGIONFED_REGION"] = tier
        if client:
            environment["REGIONFED_CLIENT"] = client
        else:
            hosts = self._superlink_hosts(tier)
            environment["REGIONFED_HOSTS"] = (
                hosts if tier == "global" else f"{hosts} {tier}-coordinator"
            )
        return {
            **self._start(self.once, image, "identity", builds=builds),
            "environment": self._environment(**environment),
            "network_mode": "none",
            **self.keys.made_by(site, authority=not client),
            "tmpfs": SCRATCH,
            **_limits("512m"),
        }

    def _start(self, defaults: Anchored, image: str, role: str, *, builds: bool = False) -> Service:
        service: Service = {
            MERGE: defaults,
            "image": f"${{REGIONFED_IMAGE:-regionfed}}-{image}:${{REGIONFED_VERSION:-0.1.0}}",
        }
        if self.together and builds:
            service["build"] = {
                "context": ".",
                "dockerfile": "docker/Dockerfile",
                "target": image,
                "args": {
                    "TORCH_INDEX_URL": ("${TORCH_INDEX_URL-https://download.pytorch.org/whl/cpu}")
                },
            }
        elif self.together:
            service["pull_policy"] = "never"
        service["command"] = [role]
        return service

    def _environment(self, **values: str) -> dict[str, str]:
        common = {"REGIONFED_CONFIG": CONFIG_PATH, "REGIONFED_LOG": "${REGIONFED_LOG:-text}"}
        return {**common, **values, **self.topology.overrides}

    def _superlink_hosts(self, tier: str) -> str:
        hosts = f"{tier}-superlink"
        return (
            f"{hosts} ${{REGIONFED_{_upper(tier)}_HOST:-localhost}}" if not self.together else hosts
        )

    def _fleet_address(self, tier: str) -> str:
        """Where the nodes of a tier dial its SuperLink."""
        if self.together:
            return f"{tier}-superlink:{FLEET_PORT}"
        name = _upper(tier)
        host = f"${{REGIONFED_{name}_HOST:?name or address of the host of {tier}}}"
        return f"{host}:${{REGIONFED_{name}_PORT:-{_default_port(tier)}}}"


def _default_port(tier: str) -> int:
    """Port of the host at which a tier's Fleet API is published."""
    return 29092 if tier == "global" else 29192


def _after(conditions: dict[str, str]) -> dict[str, Any]:
    """What has to be there before a service starts, if anything."""
    if not conditions:
        return {}
    return {"depends_on": {name: {"condition": state} for name, state in conditions.items()}}


def _limits(memory: str) -> dict[str, Any]:
    return {"deploy": {"resources": {"limits": {"memory": memory}}}}


def _tier(tier: str) -> str:
    return "global" if tier == "global" else "region"


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
