"""Own files, room, ports, data and model: each fault is named as itself."""

from __future__ import annotations

import datetime as dt
import json
import re
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regionfed.checks import resources
from regionfed.checks.address import Address
from regionfed.checks.data import check_client_rows, check_model, check_region_name
from regionfed.checks.identity import (
    check_certificate_file,
    check_clock_against,
    check_key_mode,
    check_key_pair,
    check_owner,
)
from regionfed.checks.plan import all_checks
from regionfed.checks.resources import check_disk, check_folder, check_memory, check_port
from regionfed.checks.result import CheckResult, Code, Status, error_of, exit_code, failed, passed
from regionfed.checks.steps import static_checks
from regionfed.checks.target import Target
from regionfed.cli.check import app
from regionfed.config.load import load_config
from regionfed.errors import DataError, IdentityError, StateError, TransportError
from regionfed.identity.authority import create_authority
from regionfed.identity.certificates import create_certificate
from regionfed.identity.devices import create_device

ROOT = Path(__file__).parents[3]
DAY = dt.timedelta(days=1)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    authority = create_authority(tmp_path, name="test")
    create_certificate(
        authority, tmp_path, name="server", hosts=["r1.example"], purpose="server", days=100
    )
    return tmp_path


@pytest.mark.parametrize(
    ("later", "hosts", "code"),
    [
        (0 * DAY, ("r1.example",), Code.OK),
        (0 * DAY, ("r1.example", "10.0.0.1"), Code.CERTIFICATE_NAME),
        (90 * DAY, (), Code.CERTIFICATE_ENDS_SOON),
        (101 * DAY, (), Code.CERTIFICATE_EXPIRED),
        (-2 * DAY, (), Code.CERTIFICATE_NOT_YET_VALID),
    ],
)
def test_case_11_own_certificate(
    site: Path, later: dt.timedelta, hosts: tuple[str, ...], code: Code
) -> None:
    now = dt.datetime.now(dt.UTC) + later
    result = check_certificate_file(site / "server.crt", what="own", hosts=hosts, now=now)
    assert result.code is code


def test_a_key_that_is_open_or_of_another_certificate_is_named(site: Path) -> None:
    assert check_key_pair(site / "server.crt", site / "server.key", what="k").code is Code.OK
    assert check_key_pair(site / "server.crt", site / "ca.key", what="k").code is Code.KEY_MISMATCH
    (site / "server.key").chmod(0o640)
    assert check_key_pair(site / "server.crt", site / "server.key", what="k").code is Code.KEY_MODE
    assert check_key_mode(site / "none", what="k").code is Code.IDENTITY_FILE
    assert check_certificate_file(site / "ca.key", what="c").code is Code.IDENTITY_FILE


def test_case_11_a_clock_before_the_authority_was_made(site: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    assert check_clock_against(site / "ca.crt", what="clock").code is Code.OK
    early = check_clock_against(site / "ca.crt", what="clock", now=now - DAY)
    assert early.code is Code.CLOCK_SKEW
    seconds = int(re.search(r"at least (\d+) s behind", early.message)[1])
    assert 86000 < seconds < 86400


def test_a_port_that_is_taken_or_not_ours_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = check_port(Address("127.0.0.1", port), what="Fleet API")
    assert result.code is Code.PORT_TAKEN
    assert f"127.0.0.1:{port}" in result.message
    assert check_port(Address("127.0.0.1", port), what="Fleet API").code is Code.OK
    foreign = check_port(Address("192.0.2.7", port), what="Fleet API")
    assert foreign.code is Code.PORT_TAKEN
    assert "bind 0.0.0.0" in foreign.fix
    unknown = check_port(Address("no-such-host.invalid", port), what="Fleet API")
    assert unknown.code is Code.ADDRESS_UNRESOLVED


def test_disk_and_memory_that_are_too_small_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_disk(tmp_path / "new", what="disk", need=1).code is Code.OK
    assert check_disk(tmp_path, what="disk", need=1 << 60).code is Code.DISK_TOO_SMALL
    assert check_memory(what="memory", need=1).code is Code.OK
    limit = tmp_path / "memory.max"
    limit.write_text(f"{64 << 20}\n")
    monkeypatch.setattr(resources, "_CGROUP_LIMITS", (limit,))
    result = check_memory(what="memory", need=65 << 20)
    assert result.code is Code.MEMORY_TOO_SMALL
    assert "64 MiB" in result.message
    assert "65 MiB" in result.message
    limit.write_text("max\n")
    assert check_memory(what="memory", need=65 << 20).code is Code.OK


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = check_folder(tmp_path / "file" / "state", what="state")
    assert result.code is Code.FOLDER_NOT_WRITABLE
    assert check_folder(tmp_path / "state", what="state").code is Code.OK


def write_config(folder: Path, text: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(text)
    return path


TINY = (
    "[data]\nregions = 2\nclients_per_region = 2\n[data.builtin]\ntrain_queries = 20\n"
    "validation_queries = 5\ntest_queries = 5\n[model]\npreset = 'tiny'\n"
)


def test_case_31_a_client_that_the_data_do_not_know_is_named(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path, TINY), environ={})
    assert check_client_rows(config, region="r00", client="c01").code is Code.OK
    unknown = check_client_rows(config, region="r00", client="c77")
    assert unknown.code is Code.DATA_MISSING
    assert "c77" in unknown.message
    assert check_region_name(config, region="r01").code is Code.OK
    assert check_region_name(config, region="r09").code is Code.DATA_MISSING


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    text = "[data]\nsource = 'files'\n[data.files]\npath = 'rows.csv'\ntask = 'intent'\n"
    config = load_config(write_config(tmp_path, text), environ={})
    missing = check_region_name(config, region="r00")
    assert missing.code is Code.DATA_MISSING
    assert "rows.csv" in missing.message
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    column = check_region_name(config, region="r00")
    assert column.code is Code.DATA_MISSING
    assert "column" in column.message


def test_the_model_is_described_or_its_fault_named(tmp_path: Path) -> None:
    good = check_model(load_config(write_config(tmp_path, TINY), environ={}))
    assert good.result.code is Code.OK
    assert good.summary is not None
    assert good.summary.vector_bytes == 4 * good.summary.parameters
    bad = write_config(
        tmp_path, TINY.replace("preset = 'tiny'", "kind = 'factory'\nfactory = 'nowhere:model'")
    )
    assert check_model(load_config(bad, environ={})).result.code is Code.MODEL_INVALID


def test_case_12_an_identity_of_another_client_is_named(tmp_path: Path) -> None:
    device = tmp_path / "device.json"
    assert check_owner(device, client="c00", what="owner").status is Status.SKIPPED
    create_device(device, name="c01")
    assert check_owner(device, client="c01", what="owner").code is Code.OK
    wrong = check_owner(device, client="c00", what="owner")
    assert wrong.code is Code.IDENTITY_NAME
    assert "'c01'" in wrong.message
    assert "'c00'" in wrong.message
    target = Target(role="client", client="c00", device=device)
    assert exit_code(list(static_checks(target))) == IdentityError.exit_code


def test_all_checks_stop_at_a_bad_configuration_but_look_at_the_rest(tmp_path: Path) -> None:
    config = write_config(tmp_path, "[run]\nrounds = 0\n")
    results = all_checks(Target(role="client", config=config, folder=tmp_path))
    assert [result.code for result in results] == [Code.CONFIG_INVALID, Code.OK]
    assert exit_code(results) == 2


def test_the_command_prints_json_and_ends_with_the_first_failure(tmp_path: Path) -> None:
    config = write_config(tmp_path, TINY)
    arguments = [str(config), "--region", "r00", "--client", "c00", "--json"]
    good = CliRunner().invoke(app, arguments)
    assert good.exit_code == 0, good.output
    assert {"configuration", "data of r00/c00", "model", "memory", "disk"} <= {
        record["check"] for record in json.loads(good.output)
    }
    bad = CliRunner().invoke(app, [str(config), "--region", "r00", "--client", "c09", "--json"])
    assert bad.exit_code == DataError.exit_code
    table = CliRunner().invoke(app, [str(config), "--region", "r00", "--client", "c09"])
    assert "data-missing" in table.output


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.ADDRESS_REFUSED, TransportError),
        (Code.VERSION_MISMATCH, TransportError),
        (Code.PORT_TAKEN, TransportError),
        (Code.CERTIFICATE_EXPIRED, IdentityError),
        (Code.NODE_KEY_UNKNOWN, IdentityError),
        (Code.CLOCK_SKEW, IdentityError),
        (Code.DISK_TOO_SMALL, StateError),
    ],
)
def test_a_finding_becomes_the_documented_exit_code(code: Code, error: type[Exception]) -> None:
    finding: CheckResult = failed("peer", code, "m", fix="f")
    assert type(error_of(finding)) is error
    assert exit_code([passed("x", "y"), finding]) == error.exit_code
    assert str(error_of(finding)) == f"[{code}] peer: m; f"
    assert finding.status is Status.FAILED


def test_every_code_has_a_paragraph_and_no_other(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "check-codes.md").read_text()
    documented = re.findall(r"^## `([a-z-]+)`$", text, flags=re.MULTILINE)
    assert documented == [code.value for code in Code]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[3:]:
        assert "**Cause.**" in section, section
        assert "**Fix.**" in section, section
        assert re.search(r"Exit code\s+\d", section), section


def test_documented_exit_codes_are_the_real_ones() -> None:
    text = (ROOT / "docs" / "check-codes.md").read_text()
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[3:]:
        code = Code(section.split("`")[1])
        stated = int(re.search(r"Exit code\s+(\d+)", section)[1])
        assert stated == error_of(failed("x", code, "m", fix="f")).exit_code, code
