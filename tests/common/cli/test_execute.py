"""`simulate` and `up` around an engine: result, report, output, and failure."""

from __future__ import annotations

import json
import os
import signal
import sys
import types
from pathlib import Path

import pytest

from regionfed.cli.main import run
from regionfed.config.federation import FederationConfig
from regionfed.errors import QuorumError
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ProgressSink
from regionfed.run.records import EvaluateRecord, RoundRecord
from regionfed.run.result import ModelFacts, Result, Topology
from regionfed.run.scores import LevelScores, RegionScores, TaskScore
from regionfed.run.summary import summarise


def engine(
    config: FederationConfig, folder: RunFolder, progress: ProgressSink, *, workers: int
) -> Result:
    """Stands for an engine: one round of one region, by the same records."""
    assert workers == 0, "as many as suit, unless the command says"
    progress(ProgressEvent(tier="server", round=1, rounds=1, phase="train", message="[2 regions]"))
    folder.metrics().append(RoundRecord(round=1, seconds=1.0, answered=("north",)))
    scores = LevelScores.from_regions(
        {"north": RegionScores.from_tasks({"intent": TaskScore(score=0.625)})}
    )
    folder.metrics().append(EvaluateRecord(round=1, level="global", scores=scores))
    return summarise(
        folder.metrics().read(),
        config=config,
        topology=Topology(engine="simulate", regions={"north": ("c00",)}),
        model=ModelFacts(kind="t5", parameters=10, bytes=40),
        seconds=1.0,
    )


@pytest.fixture
def engine_module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("regionfed.engine")
    module.simulate = engine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regionfed.engine", module)
    return module


def read(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "result.json").read_text())
    return found


@pytest.mark.usefixtures("engine_module")
def test_json_alone_goes_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(["simulate", "--out", str(out), "--json", "--set", "run.rounds=1"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == read(out)
    assert read(out)["overall"] == 0.625
    assert "round 1/1 server train: [2 regions]" in printed.err
    assert (out / "report.html").is_file()
    assert RunFolder.open(out).config().run.rounds == 1


@pytest.mark.usefixtures("engine_module")
def test_a_person_sees_regions_and_where_the_report_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(["simulate", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "62.5" in printed
    assert "worst region north 62.5" in printed
    assert f"report {out / 'report.html'}" in printed


def test_a_failed_run_leaves_a_result_that_says_so(
    tmp_path: Path, engine_module: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(
        config: FederationConfig, folder: RunFolder, progress: ProgressSink, *, workers: int
    ) -> Result:
        raise QuorumError("no region answered in 5 s")

    engine_module.simulate = failing  # type: ignore[attr-defined]
    out = tmp_path / "run"
    assert run(["simulate", "--out", str(out), "--json"]) == 6
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == "error: no region answered in 5 s"
    assert (read(out)["status"], read(out)["reason"]) == ("failed", "no region answered in 5 s")


def test_the_engines_own_failed_result_is_kept(
    tmp_path: Path, engine_module: types.ModuleType
) -> None:
    def failing(
        config: FederationConfig, folder: RunFolder, progress: ProgressSink, *, workers: int
    ) -> Result:
        result = engine(config, folder, progress, workers=workers)
        folder.write_result(result.model_copy(update={"status": "failed", "reason": "known"}))
        raise QuorumError("told")

    engine_module.simulate = failing  # type: ignore[attr-defined]
    assert run(["simulate", "--out", str(tmp_path / "run")]) == 6
    assert read(tmp_path / "run")["reason"] == "known"


def test_a_result_that_failed_ends_with_its_code(
    tmp_path: Path, engine_module: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(
        config: FederationConfig, folder: RunFolder, progress: ProgressSink, *, workers: int
    ) -> Result:
        result = engine(config, folder, progress, workers=workers)
        return result.model_copy(update={"status": "failed", "reason": "lost the server"})

    engine_module.simulate = ended  # type: ignore[attr-defined]
    assert run(["simulate", "--out", str(tmp_path / "run")]) == 13
    assert "lost the server" in capsys.readouterr().err


def test_sigterm_ends_like_ctrl_c(tmp_path: Path, engine_module: types.ModuleType) -> None:
    def stopped(
        config: FederationConfig, folder: RunFolder, progress: ProgressSink, *, workers: int
    ) -> Result:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("not reached")

    before = signal.getsignal(signal.SIGTERM)
    engine_module.simulate = stopped  # type: ignore[attr-defined]
    assert run(["simulate", "--out", str(tmp_path / "run")]) == 130
    assert read(tmp_path / "run")["reason"] == "stopped by SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_wrong_configuration_makes_no_folder(tmp_path: Path) -> None:
    assert run(["simulate", "--out", str(tmp_path / "run"), "--set", "run.rounds=0"]) == 2
    assert not (tmp_path / "run").exists()
