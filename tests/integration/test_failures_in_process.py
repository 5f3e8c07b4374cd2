"""What goes wrong at clients and regions is named, and the run goes on (architecture section 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_convex_federation import configure, region_state, write_rows

import regionfed_client.train as client_train
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.errors import DataError, RunFailed, StateError
from regionfed.flower.local import Fault
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent
from regionfed.run.records import RoundRecord
from regionfed.run.summary import History


def prepare(tmp_path: Path, **changes: dict[str, Any]) -> tuple[FederationConfig, RunFolder]:
    write_rows(tmp_path / "rows.jsonl")
    config = configure(tmp_path / "rows.jsonl", "residual")
    given = config.model_dump(mode="json")
    for section, values in changes.items():
        given[section].update(values)
    config = FederationConfig.model_validate(given)
    return config, RunFolder.create(config, out=tmp_path / "run")


def rounds(folder: RunFolder) -> list[RoundRecord]:
    return History(folder.metrics().read()).rounds


def theta(folder: RunFolder) -> np.ndarray:
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    return checkpoint.arrays["theta"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda update: update * np.float32("nan"), "NaN or infinity"),
        (lambda update: update[:-1], "length 5, expected 6"),
        (lambda update: None, "update is missing"),
        (lambda update: update.astype(np.float64), "float32"),
    ],
)
def test_an_unusable_update_leaves_its_client_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any, reason: str
) -> None:
    original = client_train.train_client

    def train(runtime: Any, order: Any) -> Any:
        answer = original(runtime, order)
        if (runtime.region, runtime.client) != ("r1", "c2"):
            return answer
        damaged = damage(answer.update)
        if damaged is not None and damaged.dtype != np.float32:
            return _Foreign(answer, damaged)
        return type(answer)(**{**vars(answer), "update": damaged})

    monkeypatch.setattr(client_train, "train_client", train)
    config, folder = prepare(tmp_path, run={"rounds": 2})
    result = simulate(config, folder)
    assert result.status == "ok"
    out = {(left.region, left.client) for left in result.left_out}
    assert out == {("r1", "c2")}
    assert all(reason in left.reason for left in result.left_out)
    assert [record.regions["r1"].clients for record in rounds(folder)] == [3, 3]
    assert np.isfinite(theta(folder)).all()


class _Foreign:
    """A message whose update has a type that the wire does not declare."""

    def __init__(self, answer: Any, update: np.ndarray) -> None:
        self._answer, self._update = answer, update

    def to_record(self) -> Any:
        from flwr.app import Array, ArrayRecord

        record = self._answer.to_record()
        record["arrays"] = ArrayRecord({"update": Array(self._update)})
        return record


def test_case_8_a_silent_client_is_left_out_at_the_deadline(tmp_path: Path) -> None:
    config, folder = prepare(
        tmp_path, run={"rounds": 1}, coordinator={"round_deadline": 1.0, "join_deadline": 1.0}
    )
    result = simulate(config, folder, faults={"r0": {"c3": Fault(silent=True)}})
    assert result.status == "ok"
    assert {(left.region, left.client) for left in result.left_out} == {("r0", "c3")}


def test_case_16_a_region_under_quorum_is_skipped_and_the_others_go_on(tmp_path: Path) -> None:
    config, folder = prepare(
        tmp_path,
        run={"rounds": 2},
        coordinator={"quorum": 4, "round_deadline": 1.0, "join_deadline": 1.0},
    )
    result = simulate(config, folder, faults={"r2": {"c0": Fault(error="broken")}})
    assert result.status == "ok"
    assert {skip.region for skip in result.skipped} == {"r2"}
    assert "quorum is 4" in result.skipped[0].reason
    assert "c0" in result.skipped[0].reason
    for record in rounds(folder):
        assert record.answered == ("r0", "r1")
    assert np.isfinite(theta(folder)).all()


def test_case_29_a_run_without_enough_regions_fails_and_says_why(tmp_path: Path) -> None:
    config, folder = prepare(
        tmp_path,
        run={"rounds": 5},
        coordinator={"quorum": 4, "round_deadline": 1.0, "join_deadline": 1.0},
        server={"min_regions": 3, "max_failed_rounds": 2},
    )
    with pytest.raises(RunFailed, match="2 rounds in a row had too few regions"):
        simulate(config, folder, faults={"r2": {"c0": Fault(error="broken")}})
    result = folder.read_result()
    assert result.status == "failed"
    assert "too few regions" in result.reason


class _Crash(Exception):
    """Stands for the end of the process."""


def run_until(config: FederationConfig, folder: RunFolder, *, round: int, phase: str) -> None:
    def crash(event: ProgressEvent) -> None:
        if event.tier == "server" and (event.round, event.phase) == (round, phase):
            raise _Crash

    with pytest.raises(_Crash):
        simulate(config, folder, crash)


@pytest.mark.parametrize(("round", "phase"), [(1, "train"), (3, "train"), (4, "evaluate")])
def test_case_25_a_run_that_was_cut_off_resumes_to_the_same_model_bit_for_bit(
    tmp_path: Path, round: int, phase: str
) -> None:
    config, whole = prepare(tmp_path)
    simulate(config, whole)
    cut = RunFolder.create(config, out=tmp_path / "cut")
    run_until(config, cut, round=round, phase=phase)
    result = simulate(config, RunFolder.create(config, out=cut.path, resume=True))
    assert result.rounds_done == config.run.rounds
    assert theta(cut).tobytes() == theta(whole).tobytes()
    for name in ("r0", "r1", "r2"):
        mine, undisturbed = region_state(cut, name).theta_r, region_state(whole, name).theta_r
        assert mine is not None
        assert undisturbed is not None
        assert mine.tobytes() == undisturbed.tobytes()


def test_an_earlier_run_is_never_overwritten(tmp_path: Path) -> None:
    config, folder = prepare(tmp_path, run={"rounds": 1})
    simulate(config, folder)
    before = folder.result_file.read_bytes()
    with pytest.raises(StateError, match="earlier run"):
        RunFolder.create(config, out=folder.path)
    assert folder.result_file.read_bytes() == before


def test_a_missing_column_is_one_clear_error(tmp_path: Path) -> None:
    config, folder = prepare(tmp_path)
    given = config.model_dump(mode="json")
    given["data"]["files"]["target_column"] = "answer"
    with pytest.raises(DataError, match=r"(?s)rows\.jsonl.*answer"):
        simulate(FederationConfig.model_validate(given), folder)
