"""Compose files: what is checked in is what is rendered, and what it promises holds in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from regionfed.deploy.compose_files import split, together
from regionfed.deploy.monitoring import prometheus_config
from regionfed.deploy.topology import Topology, topology_of
from regionfed.errors import ConfigError

ROOT = Path(__file__).parents[3]
RECIPE = "./recipes/containers.toml"
CLIENTS = ("c00", "c01", "c02")
LASTING = ("superlink", "superexec", "coordinator", "uplink", "client")


@pytest.fixture(scope="module")
def shown() -> Topology:
    return topology_of(ROOT / RECIPE, regions=None, clients=None)


@pytest.fixture(scope="module")
def federation(shown: Topology) -> dict[str, Any]:
    return yaml.safe_load(together(shown, config=RECIPE))


def processes(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Our own services, without the monitoring ones."""
    return {name: s for name, s in content["services"].items() if "regionfed" in s["image"].lower()}


def networks(service: dict[str, Any]) -> set[str]:
    return set(service.get("networks", ()))


def test_the_checked_in_files_are_the_rendered_ones(shown: Topology) -> None:
    hint = "render again: regionfed compose render --out docker-compose.yml"
    text = together(shown, config=RECIPE)
    assert (ROOT / "docker-compose.yml").read_text() == text, hint
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    assert scraped == prometheus_config(shown)


def test_override_files_name_services_that_exist(federation: dict[str, Any]) -> None:
    for name in ("docker-compose.gpu.yml", "docker-compose.wheelhouse.yml"):
        override = yaml.safe_load((ROOT / name).read_text())
        assert set(override["services"]) <= set(federation["services"]), name
    built = {name for name, s in federation["services"].items() if "build" in s}
    wheelhouse = yaml.safe_load((ROOT / "docker-compose.wheelhouse.yml").read_text())
    assert set(wheelhouse["services"]) == built


def test_every_process_is_confined(federation: dict[str, Any]) -> None:
    for name, service in processes(federation).items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["init"] is True, name
        assert service["user"] == "${REGIONFED_UID:-10001}:0", name
        assert service["deploy"]["resources"]["limits"]["memory"], name
        writable = [m for m in service.get("volumes", ()) if not m.endswith(":ro")]
        kept = {m.split(":")[1] for m in writable + service["tmpfs"] if ":/" in m} | {"/state"}
        assert kept <= {"/state", "/runs", "/identity", "/authority", "/public"}, name


def test_only_the_uplink_crosses_between_tiers(federation: dict[str, Any]) -> None:
    crossing = {
        name
        for name, service in processes(federation).items()
        if len({network.partition("-")[0] for network in networks(service)}) > 1
    }
    assert crossing == {"north-uplink", "south-uplink"}
    for name, network in federation["networks"].items():
        if name != "monitoring-outside":
            assert network == {"internal": True}, name
    assert not any("ports" in service for service in processes(federation).values())


def test_clients_share_a_network_with_their_superlink_only(federation: dict[str, Any]) -> None:
    services = processes(federation)
    for region in ("north", "south"):
        members = {n for n, s in services.items() if f"{region}-fleet" in networks(s)}
        assert members == {f"{region}-{name}" for name in ("superlink", *CLIENTS)}


def test_control_apis_are_bound_to_a_name_of_the_core_network_only(
    federation: dict[str, Any],
) -> None:
    services = processes(federation)
    for tier in ("global", "north", "south"):
        service = services[f"{tier}-superlink"]
        bound = service["environment"]["REGIONFED_BIND_RUNTIME"].partition(":")[0]
        assert service["networks"][f"{tier}-core"]["aliases"] == [bound]
        assert service["networks"][f"{tier}-fleet"] == {}
        assert bound not in services


def test_private_volumes_are_mounted_by_one_site_only(federation: dict[str, Any]) -> None:
    mounted: dict[str, set[str]] = {}
    for name, service in processes(federation).items():
        for mount in service.get("volumes", ()):
            mounted.setdefault(mount.partition(":")[0], set()).add(name)
    for volume, users in mounted.items():
        if volume.endswith("-authority"):
            region = volume.removesuffix("-authority")
            admits = set() if region == "global" else {f"{region}-enrol"}
            assert users == {f"{region}-identity"} | admits, volume
        elif volume.endswith("-identity"):
            site = volume.removesuffix("-identity")
            region_tier = site in ("north", "south")
            assert all(user.startswith(site) or user == "run" for user in users), volume
            if region_tier:
                assert not any(user.startswith(f"{site}-c0") for user in users), volume
        elif volume not in ("public", "runs"):
            assert len(users) == 1, volume


def test_case_4_starts_are_gated_by_health(federation: dict[str, Any]) -> None:
    for name, service in processes(federation).items():
        for other, condition in service.get("depends_on", {}).items():
            one_shot = federation["services"][other]["restart"] == "no"
            expected = "service_completed_successfully" if one_shot else "service_healthy"
            assert condition == {"condition": expected}, (name, other)
    after = federation["services"]["run"]["depends_on"]
    not_asked = ("superlink", "coordinator", "identity", "register", "enrol", "run")
    assert set(after) == {n for n in processes(federation) if not n.endswith(not_asked)}


def test_case_2_what_must_survive_lies_in_named_volumes(federation: dict[str, Any]) -> None:
    volumes = set(federation["volumes"])
    for tier in ("global", "north", "south"):
        assert {f"{tier}-identity", f"{tier}-authority", f"{tier}-superlink"} <= volumes
    assert {"runs", "public", "north-coordinator", "south-c01", "south-c01-identity"} <= volumes


def test_a_larger_federation_has_its_sizes_everywhere() -> None:
    topology = topology_of(ROOT / RECIPE, regions=3, clients=4)
    content = yaml.safe_load(together(topology, config=RECIPE))
    clients = [n for n, s in content["services"].items() if s.get("command") == ["client"]]
    assert len(clients) == 12
    for name, service in processes(content).items():
        assert service["environment"]["REGIONFED__DATA__REGIONS"] == "3", name
        assert service["environment"]["REGIONFED__DATA__CLIENTS_PER_REGION"] == "4", name
    targets = [
        target
        for job in prometheus_config(topology)["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    ]
    assert len(targets) == 1 + 3 + 12
    assert {target.partition(":")[0] for target in targets} <= set(content["services"])


def test_split_files_stand_alone(shown: Topology) -> None:
    files = {name: yaml.safe_load(text) for name, text in split(shown, config="x").items()}
    assert set(files) == {
        "global.yml",
        *(f"{r}{c}.yml" for r in ("north", "south") for c in ("", *(f"-{c}" for c in CLIENTS))),
    }
    for name, content in files.items():
        for service in content["services"].values():
            assert "build" not in service
            assert set(service.get("depends_on", ())) <= set(content["services"]), name
            assert networks(service) <= set(content.get("networks", ())), name
            for kind in ("secrets", "configs"):
                used = {entry["source"] for entry in service.get(kind, ())}
                assert used <= set(content.get(kind, ())), name


def test_split_files_hand_keys_over_as_secrets(shown: Topology) -> None:
    for name, text in split(shown, config="x").items():
        content = yaml.safe_load(text)
        for service_name, service in content["services"].items():
            if service.get("profiles") == ["setup"]:
                continue
            assert not any("/identity" in mount for mount in service.get("volumes", ())), name
            private = {s["target"] for s in service.get("secrets", ())}
            public = {c["target"] for c in service["configs"]}
            assert all(target.endswith((".key", "/node", ".json")) for target in private)
            assert all(target.endswith((".crt", ".toml")) for target in public), service_name
            assert "/identity/ca.key" not in private
        assert content["services"][f"{name.removesuffix('.yml')}-identity"]["profiles"] == ["setup"]


def test_a_region_opens_no_way_to_the_global_tier_but_its_uplink(shown: Topology) -> None:
    content = yaml.safe_load(split(shown, config="x")["north.yml"])
    outside = {name for name, network in content["networks"].items() if not network}
    assert outside == {"north-fleet", "global-fleet"}
    assert {n for n, s in content["services"].items() if "global-fleet" in networks(s)} == {
        "north-uplink"
    }


def test_a_name_that_cannot_be_a_service_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text("[data]\nregions = ['North_East', 'south']\nclients_per_region = 1\n")
    with pytest.raises(ConfigError, match="North_East"):
        topology_of(path, regions=None, clients=None)
    path.write_text("[data]\nregions = ['global', 'south']\nclients_per_region = 1\n")
    with pytest.raises(ConfigError, match="taken by a service"):
        topology_of(path, regions=None, clients=None)


@pytest.mark.docker
@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker command")
def test_compose_itself_accepts_the_files(shown: Topology, tmp_path: Path) -> None:
    def valid(*files: str, folder: Path) -> None:
        arguments = [word for name in files for word in ("-f", name)]
        environment = {
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "REGIONFED_UID": "1000",
            "REGIONFED_GLOBAL_HOST": "g",
            "REGIONFED_NORTH_HOST": "n",
            "REGIONFED_SOUTH_HOST": "s",
            "WHEELHOUSE": "/tmp",
        }
        done = subprocess.run(
            ["docker", "compose", *arguments, "--profile", "*", "config", "-q"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    valid("docker-compose.yml", folder=ROOT)
    valid("docker-compose.yml", "docker-compose.gpu.yml", folder=ROOT)
    valid("docker-compose.yml", "docker-compose.wheelhouse.yml", folder=ROOT)
    for name, text in split(shown, config="./federation.toml").items():
        (tmp_path / name).write_text(text)
        valid(name, folder=tmp_path)
