"""The role `run`: one run to its result, whatever became of the processes meanwhile."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from regionfed.config.demo import DEMO_FILE
from regionfed.config.load import load_config
from regionfed.deploy import run as role
from regionfed.deploy.role import main
from regionfed.deploy.run import DeployedRun, finished, log_event, open_run, tell
from regionfed.errors import RunFailed, TransportError
from regionfed.flower.adapter import Control, RunState
from regionfed.logs import set_up_logs
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent, ignore_progress
from regionfed.run.result import ModelFacts, Topology
from regionfed.run.summary import summarise
from regionfed_server.watch import progress_of

LIVE = RunState(1, "running")
LOST = RunState(1, "finished", "failed", "no heartbeat")


class Scripted:
    """A SuperLink whose answers are given, one per look; the last one stays."""

    def __init__(self, *looks: list[RunState] | TransportError) -> None:
        self.looks = list(looks)
        self.started: list[dict[str, Any]] = []
        self.on_start: Callable[[], None] = lambda: None

    def runs(self) -> list[RunState]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, TransportError):
            raise look
        return look

    def start_run(self, bundle: bytes, options: dict[str, Any]) -> int:
        self.started.append(options)
        self.on_start()
        return len(self.started)

    def close(self) -> None: ...


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(load_config(DEMO_FILE, environ={}), out=tmp_path / "run")


def write_result(
    folder: RunFolder, *, status: Literal["ok", "failed"] = "ok", reason: str = ""
) -> None:
    result = summarise(
        config=folder.config(),
        records=[],
        topology=Topology(engine="deployed", regions={"north": ("c00",)}),
        model=ModelFacts(kind="t5", parameters=1, bytes=4),
        status=status,
        reason=reason,
        notes={},
        started="2026-01-01T00:00:00+00:00",
        seconds=1.0,
    )
    folder.write_result(result)


def checkpoint(folder: RunFolder, number: int) -> None:
    folder.checkpoint_folder.mkdir(exist_ok=True)
    (folder.checkpoint_folder / f"round-{number:06d}.json").write_text("{}")


def deployed(control: Scripted, folder: RunFolder, *, away: float = 5.0) -> DeployedRun:
    return DeployedRun(cast(Control, control), folder, look=0.005, away=away)


def test_a_live_run_is_adopted_and_its_progress_shown(folder: RunFolder) -> None:
    control = Scripted([LIVE], [LIVE], [RunState(1, "finished", "completed")])
    seen: list[ProgressEvent] = []
    run = deployed(control, folder)
    event = ProgressEvent(tier="server", round=2, rounds=3, phase="train")
    progress_of(folder)(event)
    write_result(folder)
    assert run.wait(seen.append).status == "ok"
    assert control.started == []
    assert seen == [event]


def test_a_run_that_was_lost_is_submitted_again_into_the_same_folder(folder: RunFolder) -> None:
    control = Scripted([LIVE], [LOST], [LIVE], [LOST, RunState(2, "finished", "completed")])
    control.on_start = lambda: write_result(folder)
    assert deployed(control, folder).wait(ignore_progress).status == "ok"
    assert control.started == [{"output": str(folder.path), "engine": "deployed"}]


def test_a_result_of_an_earlier_attempt_does_not_end_this_one(folder: RunFolder) -> None:
    write_result(folder, status="failed", reason="before")
    time.sleep(0.02)
    control = Scripted([LOST])
    control.on_start = lambda: write_result(folder)
    assert deployed(control, folder).wait(ignore_progress).status == "ok"
    assert len(control.started) == 1


def test_submissions_that_bring_nothing_come_to_an_end(folder: RunFolder) -> None:
    control = Scripted([LOST])
    with pytest.raises(RunFailed, match=r"5 submissions ended.*no heartbeat.*global-superexec"):
        deployed(control, folder).wait(ignore_progress)
    assert len(control.started) == 5


def test_each_new_checkpoint_is_worth_another_submission(folder: RunFolder) -> None:
    control = Scripted([LOST])
    rounds = iter(range(1, 20))

    def start() -> None:
        number = next(rounds)
        if number < 8:
            checkpoint(folder, number)
        if number == 12:
            write_result(folder)

    control.on_start = start
    assert deployed(control, folder).wait(ignore_progress).status == "ok"
    assert len(control.started) == 12


def test_case_7_a_superlink_that_stays_away_ends_it_with_the_address(folder: RunFolder) -> None:
    gone = TransportError("global-superlink:9091 refused the connection")
    with pytest.raises(RunFailed, match="global-superlink:9091"):
        deployed(Scripted(gone), folder, away=0.05).wait(ignore_progress)


def test_a_superlink_that_comes_back_is_asked_on(folder: RunFolder) -> None:
    gone = TransportError("refused")
    control = Scripted([LIVE], gone, gone, [LIVE], [RunState(1, "finished", "completed")])
    run = deployed(control, folder)
    write_result(folder)
    assert run.wait(ignore_progress).status == "ok"
    assert control.started == []


def test_case_2_only_a_whole_result_is_final(folder: RunFolder) -> None:
    config = folder.config()
    assert finished(folder, config) is None
    write_result(folder, status="failed", reason="no regions")
    assert finished(folder, config) is None
    write_result(folder)
    # The summary counts rounds from records; here there are none, so three are still to be done.
    assert finished(folder, config) is None
    assert open_run(config, folder.path).path == folder.path


def test_case_29_a_failed_run_ends_with_its_exit_code_and_reason(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    control = Scripted([LOST])
    control.on_start = lambda: write_result(folder, status="failed", reason="too few regions")
    monkeypatch.setattr(role, "Control", lambda *_, **__: control)
    monkeypatch.setattr(role, "LOOK_SECONDS", 0.005)
    for name, value in {
        "REGIONFED_CONFIG": str(DEMO_FILE),
        "REGIONFED_RUNTIME": "global-superlink:9091",
        "REGIONFED_RUN_DIR": str(folder.path),
    }.items():
        monkeypatch.setenv(name, value)
    assert main(["run"]) == RunFailed.exit_code
    assert "failed: too few regions" in caplog.text


def test_in_json_progress_and_outcome_are_records_of_the_log(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGIONFED_LOG", "json")
    monkeypatch.setenv("REGIONFED_TIER", "global")
    root = logging.getLogger()
    handlers = list(root.handlers)
    set_up_logs()
    try:
        log_event(ProgressEvent(tier="server", round=1, rounds=3, phase="train"))
        write_result(folder)
        tell(folder.read_result(), folder, logged=True)
    finally:
        root.handlers = handlers
    written = capsys.readouterr()
    assert written.out == ""
    entries = [json.loads(line) for line in written.err.splitlines()]
    assert all(entry["tier"] == "global" for entry in entries)
    messages = [entry["message"] for entry in entries]
    assert messages[0] == "round 1/3 server train"
    assert messages[-1].startswith("run demo ended: ok, 0 of 3 rounds")
