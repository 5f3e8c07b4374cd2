"""Clients of a deployed region are enrolled for secure aggregation from the files they hand in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from regionfed.config.demo import DEMO_FILE
from regionfed.deploy.compose_files import split, together
from regionfed.deploy.enrolment import enrol_region
from regionfed.deploy.kubernetes import Site
from regionfed.deploy.settings import Settings
from regionfed.deploy.topology import topology_of
from regionfed.errors import IdentityError
from regionfed.identity.secure_files import load_directory, load_signed, region_identity
from regionfed.identity.site import SiteFolders, prepare_client
from regionfed.privacy.quantities import Channel
from regionfed.secagg import load_operator_public

CLIENTS = ("c00", "c01", "c02")
SECURE = """
[run]
name = "secure"
rounds = 1
[data]
source = "builtin"
regions = ["north", "south"]
clients_per_region = 3
[data.builtin]
train_queries = 16
validation_queries = 6
test_queries = 6
[model]
kind = "t5"
preset = "tiny"
tokenizer = "words"
[coordinator]
quorum = 3
[privacy]
mode = "client"
[privacy.secure_aggregation]
enabled = true
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "federation.toml"
    path.write_text(SECURE)
    return path


def enrol(config: Path, folder: Path) -> None:
    environ = {
        "REGIONFED_CONFIG": str(config),
        "REGIONFED_TIER": "region",
        "REGIONFED_REGION": "north",
        "REGIONFED_AUTHORITY": str(folder / "authority"),
        "REGIONFED_PUBLIC": str(folder / "public"),
    }
    (folder / "authority").mkdir(exist_ok=True)
    enrol_region(Settings.from_environment(environ), environ)


def hand_in(folder: Path, client: str) -> None:
    folders = SiteFolders(folder / client, folder / "unused", folder / "public")
    prepare_client(folders, region="north", client=client)


def test_enrolled_clients_and_signed_channels_are_published(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client in CLIENTS:
        hand_in(tmp_path, client)
    enrol(config, tmp_path)
    monkeypatch.setenv("REGIONFED_ENROLMENT", str(tmp_path / "public/north"))
    folder = region_identity("north")
    directory = load_directory(folder)
    assert sorted(directory.entries) == list(CLIENTS)
    signed = load_signed(folder, Channel.TRAIN)
    signed.verify(load_operator_public(folder / "operator.pub"))
    assert signed.config.directory == directory.digest
    key = tmp_path / "authority/operator.key"
    assert key.stat().st_mode & 0o077 == 0
    before = key.read_bytes()
    enrol(config, tmp_path)
    assert key.read_bytes() == before


def test_a_client_that_has_not_handed_in_is_named(config: Path, tmp_path: Path) -> None:
    hand_in(tmp_path, "c00")
    with pytest.raises(IdentityError, match=r"c01 .*c01\.enrolment\.json.*c02"):
        enrol(config, tmp_path)


def test_nothing_is_made_where_sums_are_not_masked(tmp_path: Path) -> None:
    enrol(DEMO_FILE, tmp_path)
    assert not (tmp_path / "public").exists()


def test_compose_enrols_before_anyone_trains(config: Path) -> None:
    topology = topology_of(config, regions=None, clients=None)
    services = yaml.safe_load(together(topology, config="./federation.toml"))["services"]
    enrolment = services["north-enrol"]
    assert set(enrolment["depends_on"]) == {
        "north-identity",
        *(f"north-{client}-identity" for client in CLIENTS),
    }
    assert "north-authority:/authority" in enrolment["volumes"]
    for name in ("north-superexec", "north-c00"):
        assert services[name]["environment"]["REGIONFED_ENROLMENT"] == "/public/north"
        assert any(mount.startswith("public:") for mount in services[name]["volumes"])
    assert "north-enrol" in services["north-superexec"]["depends_on"]
    site = yaml.safe_load(split(topology, config="./federation.toml")["north.yml"])["services"]
    assert site["north-enrol"]["profiles"] == ["setup"]


def test_compose_without_masks_enrols_nobody() -> None:
    topology = topology_of(DEMO_FILE, regions=None, clients=None)
    services = yaml.safe_load(together(topology, config="./federation.toml"))["services"]
    assert not [name for name in services if name.endswith("-enrol")]


def test_kubernetes_says_how_clients_are_enrolled(config: Path) -> None:
    topology = topology_of(config, regions=None, clients=None)
    assert "role enrol" in Site(topology, "north").header()
    assert "cp public/north/*.json" in Site(topology, "north", client="c00").header()
    assert "enrol" not in Site(topology, "global").header()
