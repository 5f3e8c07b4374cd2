"""Vectors that a device keeps: asked twice, lost on the way, gone back to, and of another run."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_runs import device_config

from regionfed.errors import ConfigError, StateError, UpdateError
from regionfed.messages import ClientUpdate, TrainOrder
from regionfed.run.checkpoint import CheckpointStore
from regionfed_client.remembered import Remembered
from regionfed_client.runtime import ClientRuntime, Shared
from regionfed_client.train import train_client
from regionfed_client.user_state import UserStore


def runtime_of(tmp_path: Path, strategy: str, **sections: Any) -> ClientRuntime:
    config = device_config(
        "roberta",
        client={"state": str(tmp_path)},
        method={"strategy": strategy},
        **sections,
    )
    return ClientRuntime(Shared(config), "r00", "c00")


class Device:
    """A client that is asked round by round from the same model."""

    def __init__(self, tmp_path: Path, strategy: str) -> None:
        self.runtime = runtime_of(tmp_path, strategy)
        self.theta = self.runtime.bench.flat.read()
        self.common = np.full_like(self.theta, 1e-3)
        self.strategy = strategy
        self.folder = tmp_path / "r00" / "c00"

    def ask(self, round: int, *, known: int = 0, run: str = "run") -> ClientUpdate:
        order = TrainOrder(
            run=run,
            region="r00",
            round=round,
            digest="",
            layout=self.runtime.bench.layout,
            start=self.theta,
            control=self.common if self.strategy == "scaffold" else None,
            control_round=known,
        )
        answer = train_client(self.runtime, order)
        assert isinstance(answer, ClientUpdate)
        return answer

    def kept(self, round: int) -> np.ndarray:
        name = {"scaffold": "control", "ditto": "personal"}[self.strategy]
        return CheckpointStore(self.folder / name).load(round).arrays["vector"]

    def rounds(self) -> list[int]:
        name = {"scaffold": "control", "ditto": "personal"}[self.strategy]
        return CheckpointStore(self.folder / name).rounds()


def same(a: np.ndarray | None, b: np.ndarray | None) -> None:
    assert a is not None
    np.testing.assert_array_equal(a, b)


def test_a_round_that_is_asked_twice_moves_c_i_once(tmp_path: Path) -> None:
    device = Device(tmp_path, "scaffold")
    device.ask(1)
    first = device.ask(2, known=1)
    again = device.ask(2, known=1)
    same(first.control, again.control)
    same(first.update, again.update)
    same(device.kept(2) - device.kept(1), first.control)
    assert np.abs(first.control).max() > 0
    assert device.rounds() == [1, 2]


def test_an_answer_that_c_never_counted_is_undone_by_the_next(tmp_path: Path) -> None:
    device = Device(tmp_path, "scaffold")
    lost = device.ask(1)
    same(lost.control, device.kept(1))
    second = device.ask(2)
    same(second.control, device.kept(2))
    assert device.rounds() == [2]
    third = device.ask(3, known=2)
    same(third.control, device.kept(3) - device.kept(2))


def test_a_server_that_goes_back_finds_the_c_i_of_that_time(tmp_path: Path) -> None:
    device = Device(tmp_path, "scaffold")
    answers = [device.ask(round, known=round - 1) for round in range(1, 8)]
    assert device.rounds() == [4, 5, 6, 7]
    again = device.ask(6, known=5)
    same(again.control, answers[5].control)
    same(again.update, answers[5].update)


def test_a_lost_c_i_is_named_with_what_to_do(tmp_path: Path) -> None:
    device = Device(tmp_path, "scaffold")
    with pytest.raises(StateError, match=r"round 3.*bring back its state folder"):
        device.ask(4, known=3)
    device.common = None
    with pytest.raises(UpdateError, match="no control variate"):
        device.ask(1)


@pytest.mark.parametrize("strategy", ["scaffold", "ditto"])
def test_another_run_begins_anew(tmp_path: Path, strategy: str) -> None:
    device = Device(tmp_path / "one", strategy)
    for round in (4, 5):
        device.ask(round, known=0 if round == 4 else 4)
    device.ask(1, run="other")
    assert device.rounds() == [1]
    fresh = Device(tmp_path / "two", strategy)
    fresh.ask(1, run="other")
    same(device.kept(1), fresh.kept(1))


def test_dittos_model_goes_on_from_the_round_before_whoever_asks_again(tmp_path: Path) -> None:
    device = Device(tmp_path, "ditto")
    device.ask(1)
    answer = device.ask(3)
    once, before = device.kept(3), device.kept(1)
    device.ask(3)
    same(once, device.kept(3))
    assert np.abs(once - before).max() > 0
    assert answer.control is None
    folder = device.folder / "personal"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_crash_while_saving_leaves_the_earlier_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(tmp_path, "ditto")
    device.ask(1)
    before = device.kept(1)

    def crash(*args: object, **kwargs: object) -> None:
        raise OSError("power cut")

    monkeypatch.setattr("regionfed.run.checkpoint.write_atomically", crash)
    with pytest.raises(OSError, match="power cut"):
        device.ask(2)
    monkeypatch.undo()
    assert device.rounds() == [1]
    same(before, device.kept(1))


def test_without_a_folder_the_key_to_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REGIONFED_CLIENT_STATE", "REGIONFED_RUN_DIR"):
        monkeypatch.delenv(name, raising=False)
    config = device_config("roberta", client={}, method={"strategy": "ditto"})
    runtime = ClientRuntime(Shared(config), "r00", "c00")
    with pytest.raises(ConfigError, match="client"):
        Remembered.of(runtime, "personal", run="run")


def test_plain_training_keeps_nothing(tmp_path: Path) -> None:
    device = Device(tmp_path, "fedprox")
    answer = device.ask(1)
    assert answer.control is None
    assert not list(tmp_path.rglob("*.safetensors"))
    with pytest.raises(StateError):
        UserStore.of(device.runtime).load()
