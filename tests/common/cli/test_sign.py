"""`privacy sign` makes what a deployed coordinator and its clients verify."""

from __future__ import annotations

from pathlib import Path

import pytest

from regionfed.cli.main import run
from regionfed.identity.secure_files import (
    enrol_clients,
    load_directory,
    load_signed,
)
from regionfed.privacy.quantities import Channel
from regionfed.secagg import load_operator_public

FEDERATION = """
[data]
regions = ["north"]
clients_per_region = 4
[model]
preset = "tiny"
[privacy.secure_aggregation]
enabled = true
[privacy.budget]
evaluation_share = 0.1
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "federation.toml").write_text(FEDERATION)
    names = [f"c{i:02d}" for i in range(4)]
    directory = enrol_clients({name: tmp_path / "clients" / name for name in names})
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "directory.json").write_text(directory.to_json())
    return tmp_path


def signed(site: Path, *, region: str = "north") -> int:
    return run(
        [
            *("privacy", "sign", str(site / "federation.toml"), "--region", region),
            *("--key", str(site / "vault" / "operator.key"), "--identity", str(site / "north")),
        ]
    )


def test_signed_terms_verify_with_the_public_key_beside_them(site: Path) -> None:
    assert signed(site) == 0
    public = load_operator_public(site / "north" / "operator.pub")
    for channel in (Channel.TRAIN, Channel.METRICS):
        config = load_signed(site / "north", channel).verify(public)
        assert config.directory == load_directory(site / "north").digest
    assert (site / "vault" / "operator.key").stat().st_mode & 0o777 == 0o600
    # A second signing keeps the key, so that clients need no new one.
    before = (site / "north" / "operator.pub").read_bytes()
    assert signed(site) == 0
    assert (site / "north" / "operator.pub").read_bytes() == before


def test_an_unknown_region_and_a_client_without_keys_are_named(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert signed(site, region="south") == 2
    assert "no region; they are north" in capsys.readouterr().err
    directory = enrol_clients({"c00": site / "clients" / "c00"})
    (site / "north" / "directory.json").write_text(directory.to_json())
    assert signed(site) == 2
    assert "lacks 3 clients of north, such as c01" in capsys.readouterr().err
