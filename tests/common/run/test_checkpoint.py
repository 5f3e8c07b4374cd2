"""Global checkpoints: whole or not at all."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest

from regionfed.errors import StateError
from regionfed.run import files
from regionfed.run.checkpoint import CheckpointStore


def arrays(value: float) -> dict[str, np.ndarray]:
    return {
        "model": np.full(64, value, np.float32),
        "momentum": np.arange(64, dtype=np.float64) * value,
    }


def test_what_is_saved_is_loaded_bit_by_bit(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    saved = {
        "model": np.random.default_rng(3).normal(size=1000).astype(np.float32),
        "strided": np.arange(20, dtype=np.float32)[::2],
        "empty": np.zeros(0, np.float32),
    }
    store.save(4, saved, {"digest": "abc", "steps": 3})
    found = store.load_latest()
    assert found is not None
    assert (found.round, found.meta) == (4, {"digest": "abc", "steps": 3})
    assert found.arrays.keys() == saved.keys()
    for name, array in saved.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "absent").load_latest() is None


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    for round in (1, 2, 3, 10):
        store.save(round, arrays(round), {})
    assert store.rounds() == [3, 10]
    assert len(list(tmp_path.iterdir())) == 4


def test_saving_a_round_again_replaces_it(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    store.save(1, arrays(1), {})
    store.save(1, arrays(5), {})
    assert store.load(1).arrays["model"][0] == 5
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "manifest", "manifest-key"])
def test_a_damaged_checkpoint_is_passed_over_by_name(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path, keep=3)
    store.save(1, arrays(1), {})
    manifest = store.save(2, arrays(2), {})
    data = tmp_path / json.loads(manifest.read_text())["file"]
    content = bytearray(data.read_bytes())
    match damage:
        case "flip":
            content[-1] ^= 1
            data.write_bytes(content)
        case "truncate":
            data.write_bytes(content[:-8])
        case "remove":
            data.unlink()
        case "manifest":
            manifest.write_text("{")
        case "manifest-key":
            manifest.write_text("{}")
    with caplog.at_level(logging.WARNING):
        found = store.load_latest()
    assert found is not None
    assert found.round == 1
    assert "round 2 is passed over" in caplog.text


def test_all_damaged_is_an_error_and_not_a_new_start(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, arrays(1), {}).write_text("")
    with pytest.raises(StateError, match=r"no checkpoint in .* is usable"):
        store.load_latest()


@pytest.mark.parametrize("dies_at", [1, 2])
def test_case_26_a_kill_during_a_save_leaves_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """The process stops at the first rename (arrays) or the second (manifest)."""
    store = CheckpointStore(tmp_path, keep=1)
    store.save(1, arrays(1), {})
    calls = 0
    replace = os.replace

    def dying(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == dies_at:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        store.save(2, arrays(2), {})
    monkeypatch.undo()
    found = store.load_latest()
    assert found is not None
    assert found.round == 1
    store.save(2, arrays(2), {})
    assert store.rounds() == [2]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_manifest_cannot_point_outside_its_folder(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "in")
    path = store.save(1, arrays(1), {})
    manifest = json.loads(path.read_text())
    manifest["file"] = "../other.safetensors"
    path.write_text(json.dumps(manifest))
    with pytest.raises(StateError, match="outside its folder"):
        store.load(1)


def test_keep_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CheckpointStore(tmp_path, keep=0)
