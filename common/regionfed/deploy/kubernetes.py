"""Kubernetes manifests: one namespace and one set of objects per site.

The shape is that of the Compose files. A tier's processes are StatefulSets of one replica (each owns
a volume), Services give them names, and NetworkPolicies keep the Runtime and Control APIs inside the
tier: only the Fleet port is reachable by nodes elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regionfed.deploy.kubernetes_objects import (
    Manifest,
    Process,
    claim,
    deny_ingress,
    fleet_policy,
    job,
    service,
    stateful_set,
    within_tier,
)
from regionfed.deploy.settings import BRIDGE_PORT, FLEET_PORT, RUNTIME_PORT
from regionfed.deploy.topology import Topology
from regionfed.deploy.yaml_text import documents

SETUP = """{site} on Kubernetes. Rendered by `regionfed compose kubernetes`.

Before `kubectl apply`, make this site's keys where the cluster is administered and hand them over:

{commands}
The federation file goes into the ConfigMap `federation`:

  kubectl -n {namespace} create configmap federation --from-file=federation.toml"""


@dataclass(frozen=True, slots=True)
class Site:
    """One release: the global tier, a region, or a client. `namespace` holds all its objects."""

    topology: Topology
    tier: str
    client: str = ""
    image: str = "regionfed"
    version: str = "0.1.0"

    @property
    def namespace(self) -> str:
        """Namespace of this site."""
        name = f"{self.tier}-{self.client}" if self.client else self.tier
        return f"regionfed-{name}"

    def manifests(self) -> list[Manifest]:
        """All objects of the site, in the order in which they can be applied."""
        space = self.namespace
        objects: list[Manifest] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}},
            deny_ingress(space),
        ]
        if self.client:
            return [*objects, stateful_set(space, self._client(), storage="5Gi")]
        objects += [
            within_tier(space),
            fleet_policy(space, FLEET_PORT),
            service(space, "superlink", "superlink", {"runtime": RUNTIME_PORT}),
            service(space, "fleet", "superlink", {"fleet": FLEET_PORT}),
            stateful_set(space, self._superlink(), storage="10Gi"),
            job(space, self._register()),
        ]
        superexec = stateful_set(space, self._superexec(), storage="10Gi")
        if self.tier == "global":
            return [*objects, claim(space, "runs", "20Gi"), superexec, job(space, self._run())]
        return [
            *objects,
            superexec,
            service(space, "coordinator", "coordinator", {"bridge": BRIDGE_PORT}),
            stateful_set(space, self._coordinator(), storage="10Gi"),
            stateful_set(space, self._uplink(), storage="1Gi"),
        ]

    def header(self) -> str:
        """How the site's keys come to be: comments above the manifests."""
        public = " ".join(
            f"--from-file={flat}=public/{path}" for flat, path in self._public_files().items()
        )
        secret = (
            f"  kubectl -n {self.namespace} create secret generic identity --from-file=identity/\n"
            f"  kubectl -n {self.namespace} create configmap public {public}\n"
        )
        role = "client" if self.client else ("global" if self.tier == "global" else "region")
        make = (
            f"  REGIONFED_TIER={role} REGIONFED_REGION={self.tier} REGIONFED_CLIENT={self.client} \\\n"
            f'    REGIONFED_HOSTS="{self._hosts()}" REGIONFED_IDENTITY=identity \\\n'
            "    REGIONFED_AUTHORITY=authority REGIONFED_PUBLIC=public \\\n"
            "    python -m regionfed.deploy.role identity\n"
        )
        site = f"Site {self.namespace}"
        return SETUP.format(
            site=site, namespace=self.namespace, commands=make + self._enrolment() + secret
        )

    def _enrolment(self) -> str:
        """How a region's directory of clients gets among the keys, where sums are masked."""
        if not self.topology.masked or self.tier == "global":
            return ""
        copy = f"  cp public/{self.tier}/*.json public/{self.tier}/operator.pub identity/\n"
        if self.client:
            return copy
        return (
            f"  REGIONFED_CONFIG=federation.toml REGIONFED_REGION={self.tier} \\\n"
            "    REGIONFED_AUTHORITY=authority REGIONFED_PUBLIC=public \\\n"
            "    python -m regionfed.deploy.role enrol\n" + copy
        )

    def _public_files(self) -> dict[str, str]:
        """Files of other sites that this one needs: name in the ConfigMap to path in `public`."""
        if self.client:
            return {f"{self.tier}-ca.crt": f"{self.tier}/ca.crt"}
        if self.tier == "global":
            return {f"{name}-uplink.pub": f"{name}/uplink.pub" for name in self.topology.regions}
        return {"global-ca.crt": "global/ca.crt"} | {
            f"{self.tier}-{name}.pub": f"{self.tier}/clients/{name}.pub"
            for name in self.topology.regions[self.tier]
        }

    def _hosts(self) -> str:
        if self.client:
            return ""
        names = "superlink fleet" if self.tier == "global" else "superlink fleet coordinator"
        return f"{names} fleet.{self.namespace}.svc"

    def _process(self, role: str, environment: dict[str, str], **options: Any) -> Process:
        """A process of this site; its image is that of the tier."""
        tier = "client" if self.client else ("global" if self.tier == "global" else "region")
        image = {"client": "client", "global": "server", "region": "coordinator"}[tier]
        if tier == "region":
            environment = {"REGIONFED_REGION": self.tier, **environment}
        return Process(
            role=role,
            image=f"{self.image}-{image}:{self.version}",
            environment={
                "REGIONFED_CONFIG": "/config/federation.toml",
                "REGIONFED_LOG": "json",
                "REGIONFED_TIER": tier,
                **environment,
                **self.topology.overrides,
            },
            **options,
        )

    def _superlink(self) -> Process:
        return self._process(
            "superlink",
            {"REGIONFED_HOSTS": "superlink fleet"},
            ports={"runtime": RUNTIME_PORT, "fleet": FLEET_PORT},
            memory="1Gi",
        )

    def _superexec(self) -> Process:
        environment = {"REGIONFED_RUNTIME": f"superlink:{RUNTIME_PORT}"}
        if self.tier != "global":
            environment["REGIONFED_BRIDGE"] = f"coordinator:{BRIDGE_PORT}"
        return self._process("superexec", environment, memory="3Gi", runs=self.tier == "global")

    def _coordinator(self) -> Process:
        return self._process(
            "coordinator",
            {
                "REGIONFED_RUNTIME": f"superlink:{RUNTIME_PORT}",
                "REGIONFED_BRIDGE": f"coordinator:{BRIDGE_PORT}",
                "REGIONFED_HOSTS": "coordinator",
                "REGIONFED_HEALTH": f"tls:127.0.0.1:{BRIDGE_PORT}",
            },
            ports={"bridge": BRIDGE_PORT},
            memory="1Gi",
        )

    def _uplink(self) -> Process:
        return self._process(
            "uplink",
            {
                "REGIONFED_FLEET": f"fleet.regionfed-global.svc:{FLEET_PORT}",
                "REGIONFED_PEER_CA": "/public/global-ca.crt",
                "REGIONFED_BRIDGE": f"coordinator:{BRIDGE_PORT}",
            },
            memory="2Gi",
        )

    def _client(self) -> Process:
        return self._process(
            "client",
            {
                "REGIONFED_REGION": self.tier,
                "REGIONFED_CLIENT": self.client,
                "REGIONFED_FLEET": f"fleet.regionfed-{self.tier}.svc:{FLEET_PORT}",
                "REGIONFED_PEER_CA": f"/public/{self.tier}-ca.crt",
            },
            memory="2Gi",
        )

    def _register(self) -> Process:
        if self.tier == "global":
            nodes = {region: f"/public/{region}-uplink.pub" for region in self.topology.regions}
        else:
            clients = self.topology.regions[self.tier]
            nodes = {f"{self.tier}/{name}": f"/public/{self.tier}-{name}.pub" for name in clients}
        return self._process(
            "register",
            {
                "REGIONFED_RUNTIME": f"superlink:{RUNTIME_PORT}",
                "REGIONFED_NODES": " ".join(f"{name}={key}" for name, key in nodes.items()),
            },
            memory="512Mi",
        )

    def _run(self) -> Process:
        return self._process(
            "run",
            {
                "REGIONFED_RUNTIME": f"superlink:{RUNTIME_PORT}",
                "REGIONFED_RUN_DIR": "/runs/run",
            },
            memory="1Gi",
            runs=True,
        )


def write_kubernetes(topology: Topology, folder: Path, *, image: str, version: str) -> list[Path]:
    """Write one file of manifests per site into `folder`, and return their paths."""
    sites = [Site(topology, "global", image=image, version=version)]
    for region, clients in topology.regions.items():
        sites.append(Site(topology, region, image=image, version=version))
        sites += [Site(topology, region, name, image=image, version=version) for name in clients]
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for site in sites:
        path = folder / f"{site.namespace.removeprefix('regionfed-')}.yaml"
        path.write_text(documents(site.manifests(), header=site.header()), encoding="utf-8")
        written.append(path)
    return written
