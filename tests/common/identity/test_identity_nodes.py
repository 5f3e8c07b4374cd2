"""Node keys, devices, the identity of a whole site, and the inventory."""

from __future__ import annotations

import datetime as dt
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from typer.testing import CliRunner

from regionfed.cli.certs import app
from regionfed.errors import IdentityError
from regionfed.identity.authority import load_authority, load_certificate
from regionfed.identity.certificates import create_certificate
from regionfed.identity.devices import merge_enrolments
from regionfed.identity.inventory import inventory
from regionfed.identity.keys import create_node_key, load_node_key, load_node_public_key
from regionfed.identity.site import SiteFolders, prepare_client, prepare_global, prepare_region


def folders(root: Path, site: str) -> SiteFolders:
    return SiteFolders(
        identity=root / site / "identity",
        authority=root / site / "authority",
        public=root / "public",
    )


def snapshot(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_a_node_key_is_what_flower_reads(tmp_path: Path) -> None:
    private, public = create_node_key(tmp_path / "nodes", name="r1-c00")
    key = load_ssh_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP384R1)
    assert load_ssh_public_key(public.read_bytes()) == key.public_key()
    assert public.read_text().split()[0] == "ecdsa-sha2-nistp384"
    assert public.read_text().split()[2] == "r1-c00"
    assert load_node_key(private).public_key() == load_node_public_key(public)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    with pytest.raises(IdentityError, match="--force"):
        create_node_key(tmp_path / "nodes", name="r1-c00")


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", ".hidden", "x/y", "n" * 129])
def test_a_node_name_that_cannot_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IdentityError, match="node name"):
        create_node_key(tmp_path, name=name)


def test_a_sites_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    sites = {name: folders(tmp_path, name) for name in ("global", "r1", "c00")}
    prepare_global(sites["global"], hosts=["global-superlink"])
    made = prepare_region(sites["r1"], region="r1", hosts=["r1-superlink", "r1-coordinator"])
    assert made == ["ca.crt", "server.crt", "bridge.crt", "node"]
    assert prepare_client(sites["c00"], region="r1", client="c00") == ["node", "device.json"]
    before = snapshot(tmp_path)
    assert prepare_global(sites["global"], hosts=["global-superlink"]) == []
    assert prepare_region(sites["r1"], region="r1", hosts=["r1-superlink", "r1-coordinator"]) == []
    assert prepare_client(sites["c00"], region="r1", client="c00") == []
    assert snapshot(tmp_path) == before


def test_only_public_files_leave_a_site(tmp_path: Path) -> None:
    prepare_region(folders(tmp_path, "r1"), region="r1", hosts=["r1-superlink"])
    prepare_client(folders(tmp_path, "c00"), region="r1", client="c00")
    public = snapshot(tmp_path / "public")
    assert set(public) == {
        "r1/ca.crt",
        "r1/uplink.pub",
        "r1/clients/c00.pub",
        "r1/clients/c00.enrolment.json",
    }
    assert not any(b"PRIVATE" in content for content in public.values())
    directory = merge_enrolments(
        [tmp_path / "public/r1/clients/c00.enrolment.json"], tmp_path / "directory.json"
    )
    assert set(directory.entries) == {"c00"}


def test_a_changed_host_and_a_near_end_make_a_new_certificate(tmp_path: Path) -> None:
    site = folders(tmp_path, "global")
    prepare_global(site, hosts=["a"])
    node = load_certificate(site.identity / "server.crt")
    assert prepare_global(site, hosts=["a", "b"]) == ["server.crt"]
    create_certificate(
        load_authority(site.authority),
        site.identity,
        name="server",
        hosts=["a"],
        purpose="server",
        days=5,
        force=True,
    )
    key = (site.identity / "server.key").read_bytes()
    assert prepare_global(site, hosts=["a"]) == ["server.crt"]
    assert (site.identity / "server.key").read_bytes() == key
    renewed = load_certificate(site.identity / "server.crt")
    assert renewed.not_valid_after_utc > dt.datetime.now(dt.UTC) + dt.timedelta(days=300)
    assert renewed.serial_number != node.serial_number


def test_the_inventory_names_expiry_and_open_modes(tmp_path: Path) -> None:
    site = folders(tmp_path, "r1")
    prepare_region(site, region="r1", hosts=["r1-superlink"])
    assert [entry.problem for entry in inventory(site.identity)] == [""] * 7
    (site.identity / "server.key").chmod(0o644)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=500)
    problems = {e.path.name: e.problem for e in inventory(site.identity, now=later) if e.problem}
    assert set(problems) == {"server.crt", "bridge.crt", "server.key"}
    assert problems["server.crt"] == "expired"
    assert "chmod 600" in problems["server.key"]


def test_the_command_line_makes_shows_and_renews(tmp_path: Path) -> None:
    runner = CliRunner()

    def call(*words: str) -> str:
        result = runner.invoke(app, list(words))
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.output

    ca, site = str(tmp_path / "ca"), str(tmp_path / "site")
    call("init-ca", "--dir", ca)
    call("server", "--dir", site, "--ca", ca, "--host", "r1", "--host", "10.0.0.1")
    call("client", "bridge", "--dir", site, "--ca", ca)
    call("request", "web", "--dir", site, "--host", "web.example")
    call(
        "sign", f"{site}/web.csr", "--ca", ca, "--allow", "web.example", "--out", f"{site}/web.crt"
    )
    assert "flwr supernode register c00.pub" in call("node", "c00", "--dir", site)
    call("device", "c00", "--dir", f"{site}/devices")
    call("directory", f"{site}/devices/c00.enrolment.json", "--out", f"{site}/directory.json")
    call("renew", f"{site}/server.crt", "--ca", ca)
    shown = call("show", site, "--json")
    assert '"web.example"' in shown
    assert '"problem": ""' in shown
    (tmp_path / "site" / "web.key").chmod(0o640)
    assert runner.invoke(app, ["show", site]).exit_code == 8
