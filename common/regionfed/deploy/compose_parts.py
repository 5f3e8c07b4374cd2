"""What the Compose services of all tiers are made of: images, environment, keys, limits, addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regionfed.deploy.keys import KeyStore
from regionfed.deploy.settings import FLEET_PORT
from regionfed.deploy.topology import Topology
from regionfed.deploy.yaml_text import MERGE, Anchored

Service = dict[str, Any]

CONFIG_PATH = "/config/federation.toml"
FEDERATION = {"source": "federation", "target": CONFIG_PATH}
SCRATCH = ["/tmp:mode=1777,size=64m", "/state:mode=1777,size=256m"]
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
class Parts:
    """Parts of the services of one file; the common ones are shared objects, written once as anchors.

    `keys` says how a site's keys reach its processes. `together` means that all tiers are in one
    file on one machine, which also builds the images; otherwise each site has its own file, Fleet
    APIs are published on the host, and images come from a registry.
    """

    topology: Topology
    process: Anchored
    once: Anchored
    keys: KeyStore
    together: bool = True

    def start(self, defaults: Anchored, image: str, role: str, *, builds: bool = False) -> Service:
        """The beginning of a service: what is common, its image, and its role.

        The first service of each image also `builds` it, where all tiers are on one machine.
        """
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

    def environment(self, **values: str) -> dict[str, str]:
        """What every process is told, `values`, and the overrides of the federation file."""
        common = {"REGIONFED_CONFIG": CONFIG_PATH, "REGIONFED_LOG": "${REGIONFED_LOG:-text}"}
        return {**common, **values, **self.topology.overrides}

    def superlink_hosts(self, tier: str) -> str:
        """Names that the certificate of a tier's SuperLink has to have."""
        hosts = f"{tier}-superlink"
        return (
            f"{hosts} ${{REGIONFED_{upper(tier)}_HOST:-localhost}}" if not self.together else hosts
        )

    def fleet_address(self, tier: str) -> str:
        """Where the nodes of a tier dial its SuperLink."""
        if self.together:
            return f"{tier}-superlink:{FLEET_PORT}"
        name = upper(tier)
        host = f"${{REGIONFED_{name}_HOST:?name or address of the host of {tier}}}"
        return f"{host}:${{REGIONFED_{name}_PORT:-{default_port(tier)}}}"

    def enrolled(self, region: str) -> dict[str, str]:
        """Where a process of the region finds the directory and the signed configurations."""
        return {"REGIONFED_ENROLMENT": f"/public/{region}"} if self.topology.masked else {}

    def identity(self, image: str, tier: str, *, builds: bool, client: str = "") -> Service:
        """The service that makes the keys of a site: a tier, or a client of one."""
        site = f"{tier}-{client}" if client else tier
        environment = {"REGIONFED_TIER": "client" if client else tier_kind(tier)}
        if tier != "global":
            environment["REGIONFED_REGION"] = tier
        if client:
            environment["REGIONFED_CLIENT"] = client
        else:
            hosts = self.superlink_hosts(tier)
            environment["REGIONFED_HOSTS"] = (
                hosts if tier == "global" else f"{hosts} {tier}-coordinator"
            )
        return {
            **self.start(self.once, image, "identity", builds=builds),
            "environment": self.environment(**environment),
            "network_mode": "none",
            **self.keys.made_by(site, authority=not client),
            "tmpfs": SCRATCH,
            **limits("512m"),
        }


def default_port(tier: str) -> int:
    """Port of the host at which a tier's Fleet API is published."""
    return 29092 if tier == "global" else 29192


def starts_after(conditions: dict[str, str]) -> dict[str, Any]:
    """What has to be there before a service starts, if anything."""
    if not conditions:
        return {}
    return {"depends_on": {name: {"condition": state} for name, state in conditions.items()}}


def limits(memory: str) -> dict[str, Any]:
    """A limit of memory, in the words of Compose ("512m")."""
    return {"deploy": {"resources": {"limits": {"memory": memory}}}}


def tier_kind(tier: str) -> str:
    """`global`, or `region` for the name of one."""
    return "global" if tier == "global" else "region"


def upper(name: str) -> str:
    """A site's name as a part of the name of a variable."""
    return name.upper().replace("-", "_")
