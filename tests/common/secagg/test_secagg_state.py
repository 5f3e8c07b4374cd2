"""Key files, directories, and states and messages as bytes."""

from __future__ import annotations

import pickle
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secagg_rig import Rig

from regionfed.errors import IdentityError
from regionfed.secagg import (
    Advertisement,
    ClientState,
    CoordinatorState,
    DeviceKeys,
    Directory,
    MaskRequest,
    OperatorKey,
    RoundContext,
    RoundOpen,
    SecAggConfig,
    UnmaskReply,
    load_operator_public,
    write_private,
)
from regionfed.secagg import errors as e
from regionfed.secagg.wire import pack, unpack


def test_key_files_are_private_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    keys = DeviceKeys.create("phone")
    keys.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert DeviceKeys.load(path).enrolment.identity == keys.enrolment.identity
    assert DeviceKeys.load(path).enrolment.agreement == keys.enrolment.agreement
    with pytest.raises(IdentityError, match="exists already"):
        keys.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["device.json"]


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    DeviceKeys.create("phone").save(path)
    path.chmod(0o640)
    with pytest.raises(IdentityError, match="chmod 600"):
        DeviceKeys.load(path)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"name": "x", "identity": "00"}', b"[1]"])
def test_a_damaged_key_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "device.json"
    write_private(path, content)
    with pytest.raises(IdentityError, match=r"device\.json"):
        DeviceKeys.load(path)
    with pytest.raises(IdentityError, match="enrol this device"):
        DeviceKeys.load(tmp_path / "absent.json")


def test_keys_do_not_show_in_their_representation() -> None:
    keys = DeviceKeys.create("phone")
    assert repr(keys) == "DeviceKeys(name='phone')"


def test_operator_keys_come_back_and_verify(tmp_path: Path) -> None:
    operator = OperatorKey.create()
    operator.save(tmp_path / "operator.key")
    assert stat.S_IMODE((tmp_path / "operator.key").stat().st_mode) == 0o600
    rig = Rig.create(3)
    signed = OperatorKey.load(tmp_path / "operator.key").sign(rig.config)
    assert signed.verify(load_operator_public(tmp_path / "operator.key.pub")) == rig.config
    with pytest.raises(IdentityError):
        operator.save(tmp_path / "operator.key")
    with pytest.raises(IdentityError, match="copy it from the enrolment"):
        load_operator_public(tmp_path / "absent.pub")


def test_a_directory_comes_back_and_refuses_forgeries() -> None:
    rig = Rig.create(4)
    again = Directory.from_json(rig.directory.to_json())
    assert again.digest == rig.directory.digest
    first, second, *_ = rig.directory.entries.values()
    with pytest.raises(e.UnsignedKey):
        Directory.of([replace(first, agreement=second.agreement)])
    with pytest.raises(e.UnsignedKey):
        Directory.of([replace(first, name="other")])
    with pytest.raises(e.DuplicateKey):
        Directory.of([first, first])
    for text in ("", "[]", '{"a": {}}', '{"a": {"identity": "zz"}}'):
        with pytest.raises(IdentityError):
            Directory.from_json(text)


def test_two_names_for_one_device_are_refused() -> None:
    keys = DeviceKeys.create("a")
    with pytest.raises(e.DuplicateKey):
        Directory.of([keys.enrolment, DeviceKeys("b", keys.identity, keys.agreement).enrolment])


def test_a_configuration_has_one_form() -> None:
    config = Rig.create(3).config
    assert SecAggConfig.from_bytes(config.to_bytes()) == config
    spaced = config.to_bytes().replace(b",", b", ", 1)
    for data in (spaced, b"", b"[]", b"{}", config.to_bytes().replace(b"min_cohort", b"minimum")):
        with pytest.raises(e.MalformedMessage):
            SecAggConfig.from_bytes(data)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"version": 9}', pickle.dumps({"a": 1})])
def test_a_damaged_state_is_refused(data: bytes) -> None:
    with pytest.raises(e.MalformedMessage):
        ClientState.from_bytes(data)
    with pytest.raises(e.MalformedMessage):
        CoordinatorState.from_bytes(data)


def test_messages_hold_scalars_only_and_refuse_anything_else() -> None:
    rig = Rig.create(3)
    coordinator = rig.start()
    fields = coordinator.open_message().to_fields()
    assert {type(value) for value in fields.values()} <= {bytes, str, int, float}
    assert RoundOpen.from_fields(fields) == coordinator.open_message()
    for key in fields:
        without = {name: value for name, value in fields.items() if name != key}
        with pytest.raises(e.MalformedMessage):
            RoundOpen.from_fields(without)
        with pytest.raises(e.MalformedMessage):
            RoundOpen.from_fields(fields | {key: [1]})
    for other in (MaskRequest, UnmaskReply):
        with pytest.raises(e.MalformedMessage, match="expected the message"):
            other.from_fields(fields)


def test_packing_is_unambiguous() -> None:
    assert pack([b"a", b"bc"]) != pack([b"ab", b"c"])
    assert unpack(pack([b"", b"x"]), count=2) == (b"", b"x")
    for data in (b"\0", b"\0\0\0\5abc", pack([b"a"]) + b"\0"):
        with pytest.raises(e.MalformedMessage):
            unpack(data)
    with pytest.raises(e.MalformedMessage):
        unpack(pack([b"a"]), count=2)


@given(st.binary(max_size=200), st.integers(0, 3))
def test_random_bytes_are_no_message(data: bytes, cut: int) -> None:
    whole = pack([data] * 5)
    for parse in (RoundContext.from_bytes, Advertisement.from_bytes):
        with pytest.raises(e.MalformedMessage):
            parse(data)
        with pytest.raises(e.MalformedMessage):
            parse(whole[: len(whole) - cut - 1])


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    write_private(path, b"old")

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_private(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
