"""Manifests: complete references, hardened pods, closed APIs. No cluster is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from regionfed.deploy.kubernetes import Site, write_kubernetes
from regionfed.deploy.topology import Topology, topology_of

ROOT = Path(__file__).parents[3]
API_VERSIONS = {
    "Namespace": "v1",
    "Service": "v1",
    "PersistentVolumeClaim": "v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}


@pytest.fixture(scope="module")
def topology() -> Topology:
    return topology_of(ROOT / "recipes" / "containers.toml", regions=None, clients=None)


@pytest.fixture(scope="module")
def written(topology: Topology, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("kubernetes")
    paths = write_kubernetes(topology, folder, image="regionfed", version="0.1.0")
    return {path.name: list(yaml.safe_load_all(path.read_text())) for path in paths}


def pods(objects: list[Any]) -> dict[str, Any]:
    return {
        o["metadata"]["name"]: o["spec"]["template"]["spec"]
        for o in objects
        if o["kind"] in ("StatefulSet", "Job")
    }


def test_the_checked_in_manifests_are_the_rendered_ones(written: dict[str, list[Any]]) -> None:
    folder = ROOT / "deploy" / "kubernetes"
    assert {path.name for path in folder.glob("*.yaml")} == set(written)
    for name, objects in written.items():
        assert list(yaml.safe_load_all((folder / name).read_text())) == objects, (
            "render again: regionfed compose kubernetes"
        )


def test_every_object_has_its_kind_namespace_and_name(written: dict[str, list[Any]]) -> None:
    for name, objects in written.items():
        space = f"regionfed-{name.removesuffix('.yaml')}"
        assert objects[0]["kind"] == "Namespace"
        assert objects[0]["metadata"]["name"] == space
        identities = [(o["kind"], o["metadata"]["name"]) for o in objects]
        assert len(set(identities)) == len(identities)
        for each in objects:
            assert each["apiVersion"] == API_VERSIONS[each["kind"]]
            assert len(each["metadata"]["name"]) <= 63
            if each["kind"] != "Namespace":
                assert each["metadata"]["namespace"] == space


def test_selectors_volumes_and_ports_refer_to_what_is_there(written: dict[str, list[Any]]) -> None:
    for objects in written.values():
        by_app = {
            o["spec"]["template"]["metadata"]["labels"]["app"]: o["spec"]["template"]["spec"]
            for o in objects
            if o["kind"] in ("StatefulSet", "Job")
        }
        for each in objects:
            if each["kind"] == "Service":
                container = by_app[each["spec"]["selector"]["app"]]["containers"][0]
                offered = {port["containerPort"] for port in container["ports"]}
                assert {port["targetPort"] for port in each["spec"]["ports"]} <= offered
            if each["kind"] == "StatefulSet":
                selector = each["spec"]["selector"]["matchLabels"]
                labels = each["spec"]["template"]["metadata"]["labels"]
                assert selector.items() <= labels.items()
                claims = {c["metadata"]["name"] for c in each["spec"]["volumeClaimTemplates"]}
                _mounts_exist(each["spec"]["template"]["spec"], claims)
            if each["kind"] == "Job":
                _mounts_exist(each["spec"]["template"]["spec"], set())


def _mounts_exist(pod: dict[str, Any], claims: set[str]) -> None:
    volumes = {volume["name"] for volume in pod["volumes"]} | claims
    for container in pod["initContainers"] + pod["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_pods_are_hardened_and_know_no_api_server(written: dict[str, list[Any]]) -> None:
    for objects in written.values():
        for name, pod in pods(objects).items():
            assert pod["automountServiceAccountToken"] is False, name
            assert pod["securityContext"]["runAsNonRoot"] is True, name
            for container in pod["initContainers"] + pod["containers"]:
                security = container["securityContext"]
                assert security["readOnlyRootFilesystem"] is True
                assert security["capabilities"] == {"drop": ["ALL"]}
                assert security["allowPrivilegeEscalation"] is False


def test_only_the_fleet_port_is_open_to_other_namespaces(written: dict[str, list[Any]]) -> None:
    for name, objects in written.items():
        policies = {
            o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "NetworkPolicy"
        }
        assert policies.pop("deny-ingress") == {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [],
        }
        if "-c0" in name:
            assert policies == {}
            continue
        assert policies.pop("within-tier")["ingress"] == [{"from": [{"podSelector": {}}]}]
        assert policies.pop("fleet") == {
            "podSelector": {"matchLabels": {"app": "superlink"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": 9092}]}],
        }
        assert policies == {}


def test_the_header_names_every_public_file_that_the_pods_read(topology: Topology) -> None:
    for site in (Site(topology, "global"), Site(topology, "north"), Site(topology, "north", "c00")):
        text = yaml.safe_dump(site.manifests())
        used = {
            word.split("/public/")[1].rstrip("'\"\n") for word in text.split() if "/public/" in word
        }
        assert used
        for name in used:
            assert f"--from-file={name}=public/" in site.header(), name
