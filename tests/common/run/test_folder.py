"""A run's folder never destroys an earlier run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from regionfed.config.federation import FederationConfig
from regionfed.config.load import load_config
from regionfed.errors import StateError
from regionfed.run.folder import RunFolder

NOW = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)


def config(tmp_path: Path, **given: object) -> FederationConfig:
    overrides = {"run.output": str(tmp_path / "runs"), "run.name": "demo"}
    return load_config(None, environ={}, overrides=overrides | given)


def test_two_runs_of_one_second_get_two_folders(tmp_path: Path) -> None:
    first = RunFolder.create(config(tmp_path), now=NOW)
    second = RunFolder.create(config(tmp_path), now=NOW)
    assert first.path == tmp_path / "runs" / "demo-20250304-050607"
    assert second.path == tmp_path / "runs" / "demo-20250304-050607-2"


def test_layout_and_resolved_configuration(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path), out=tmp_path / "mine")
    assert folder.checkpoint_folder.is_dir()
    assert folder.logs.is_dir()
    assert folder.regions.is_dir()
    assert folder.config() == config(
        tmp_path, **{"network.certificates": str(Path("certs").absolute())}
    )
    assert folder.client("north", "c0").stat().st_mode & 0o777 == 0o700
    assert RunFolder.open(tmp_path / "mine").path == folder.path


def test_an_empty_folder_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    RunFolder.create(config(tmp_path), out=tmp_path / "empty")


def test_an_earlier_run_is_only_reopened_when_asked(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    RunFolder.create(config(tmp_path), out=out)
    (out / "metrics.jsonl").write_text("kept\n")
    with pytest.raises(StateError, match="add --resume"):
        RunFolder.create(config(tmp_path), out=out)
    longer = config(tmp_path, **{"run.rounds": 50})
    folder = RunFolder.create(longer, out=out, resume=True)
    assert folder.metrics_file.read_text() == "kept\n"
    assert folder.config().run.rounds == 50


def test_another_configuration_is_not_resumed(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    RunFolder.create(config(tmp_path), out=out)
    for key, value in (("run.seed", 8), ("training.learning_rate", 0.5), ("data.regions", 3)):
        with pytest.raises(StateError, match=key) as caught:
            RunFolder.create(config(tmp_path, **{key: value}), out=out, resume=True)
        assert str(value) in str(caught.value)


def test_a_strange_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"x")
    with pytest.raises(StateError, match=r"not empty \(it holds cat.png\)"):
        RunFolder.create(config(tmp_path), out=tmp_path / "photos")
    with pytest.raises(StateError, match="no run to resume"):
        RunFolder.create(config(tmp_path), out=tmp_path / "photos", resume=True)
    with pytest.raises(StateError, match="is a file"):
        RunFolder.create(config(tmp_path), out=tmp_path / "photos" / "cat.png")
    with pytest.raises(StateError, match="--resume --out DIR"):
        RunFolder.create(config(tmp_path), resume=True)
    assert [entry.name for entry in (tmp_path / "photos").iterdir()] == ["cat.png"]


def test_opening_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"no federation\.toml"):
        RunFolder.open(tmp_path)
    with pytest.raises(StateError, match="is not a folder"):
        RunFolder.open(tmp_path / "none")
