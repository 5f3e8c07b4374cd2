"""`regionfed status`: what is shown, and that a dead run is never shown as a slow one (case 35)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

from regionfed.bridge.desk import Desk
from regionfed.bridge.store import JobStore
from regionfed.cli.status import app, places_of
from regionfed.config.demo import DEMO_FILE
from regionfed.config.load import load_config
from regionfed.errors import ConfigError, StateError
from regionfed.launch.watchdog import MARK, NAME
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent
from regionfed.run.records import (
    LeftOutClient,
    PrivacyRecord,
    RegionRound,
    RoundRecord,
    SkippedRegion,
)
from regionfed.status.collect import collect
from regionfed.status.sources import Places
from regionfed_coordinator.daemon.server import DeskServer
from regionfed_server.watch import progress_of


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    config = load_config(DEMO_FILE, environ={}, overrides=["privacy.mode=client"])
    return RunFolder.create(config, out=tmp_path / "run")


def tell(folder: RunFolder, number: int, phase: str, message: str = "") -> None:
    progress_of(folder)(
        ProgressEvent(tier="server", round=number, rounds=3, phase=phase, message=message)
    )


def age(folder: RunFolder, seconds: float) -> None:
    moment = time.time() - seconds
    for path in folder.path.glob("*.jsonl"):
        os.utime(path, (moment, moment))


def add_round(folder: RunFolder) -> None:
    folder.metrics().append(
        RoundRecord(
            round=1,
            seconds=3.0,
            answered=("north",),
            regions={"north": RegionRound(weight=1.0, clients=1)},
            skipped=(SkippedRegion(region="south", reason="1 of 2 clients, the quorum is 2"),),
            left_out=(LeftOutClient(region="north", client="c01", reason="no answer in 5 s"),),
        )
    )
    folder.metrics().append(
        PrivacyRecord(
            round=1,
            region="north",
            release="training",
            noise_multiplier=1.0,
            clipping_norm=1.0,
            epsilon=0.5,
            delta=1e-5,
        )
    )


def test_a_run_without_progress_waits(folder: RunFolder) -> None:
    found = collect(Places(folder=folder.path))
    assert (found.state, found.round, found.rounds) == ("waiting", 0, 3)


def test_a_running_run_shows_round_skipped_late_and_epsilon_left(folder: RunFolder) -> None:
    add_round(folder)
    tell(folder, 2, "train")
    found = collect(Places(folder=folder.path))
    assert (found.state, found.round, found.phase) == ("running", 2, "train")
    assert found.progress_age_s is not None
    assert found.progress_age_s < 30
    north, south = found.regions
    assert north.clients_late == {"c01": "no answer in 5 s"}
    assert (north.clients_counted, north.clients_live) == (1, None)
    assert north.epsilon == 0.5
    assert north.epsilon_left == pytest.approx(folder.config().privacy.budget.epsilon - 0.5)
    assert south.round == 0
    assert south.last_error == "round 1: skipped: 1 of 2 clients, the quorum is 2"


def test_a_region_shows_its_last_step_and_who_counted(folder: RunFolder) -> None:
    add_round(folder)
    progress_of(folder)(
        ProgressEvent(tier="coordinator", region="north", round=2, rounds=3, phase="trained")
    )
    north, south = collect(Places(folder=folder.path)).regions
    assert (north.phase, south.phase) == ("trained in 2", "")
    done = CliRunner().invoke(app, [str(folder.path)])
    assert "trained in 2" in done.stdout
    assert "1 counted" in done.stdout


def test_case_35_a_run_past_its_deadlines_is_dead_and_a_slow_one_is_not(folder: RunFolder) -> None:
    tell(folder, 1, "train")
    deadline = folder.config().server.round_deadline
    age(folder, deadline)
    assert collect(Places(folder=folder.path)).state == "running"
    age(folder, deadline + 200)
    found = collect(Places(folder=folder.path))
    assert found.state == "dead"
    assert "no progress for" in found.reason


def note(folder: RunFolder, mark: str) -> None:
    home = folder.path / "processes"
    home.mkdir()
    noted = {"mark": mark, "daemons": {}, "controls": {}}
    (home / "federation.json").write_text(json.dumps(noted))


def test_case_35_a_local_run_without_processes_is_dead_at_once(folder: RunFolder) -> None:
    tell(folder, 1, "train")
    note(folder, "nobody-carries-this-mark")
    found = collect(Places(folder=folder.path))
    assert found.state == "dead"
    assert found.processes == {}


def test_the_processes_of_a_local_run_are_named(folder: RunFolder) -> None:
    tell(folder, 1, "train")
    note(folder, "mark-of-the-status-test")
    environment = {**os.environ, MARK: "mark-of-the-status-test", NAME: "north/daemon"}
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, env=environment)
    try:
        found = collect(Places(folder=folder.path))
        assert found.state == "running"
        assert found.processes == {"north/daemon": process.pid}
    finally:
        process.kill()
        process.wait()


def test_case_29_a_failed_result_is_failed_and_ends_with_its_code(folder: RunFolder) -> None:
    tell(folder, 1, "train")
    age(folder, 5)
    write_result(folder, status="failed", reason="3 rounds in a row had too few regions")
    found = collect(Places(folder=folder.path))
    assert (found.state, found.reason) == ("failed", "3 rounds in a row had too few regions")
    done = CliRunner().invoke(app, [str(folder.path)])
    assert done.exit_code == 13
    assert "FAILED" in done.stdout


def test_a_result_of_an_earlier_attempt_does_not_end_a_resumed_run(folder: RunFolder) -> None:
    write_result(folder, status="failed", reason="before")
    moment = time.time() - 60
    os.utime(folder.result_file, (moment, moment))
    tell(folder, 1, "train")
    assert collect(Places(folder=folder.path)).state == "running"


def test_json_has_the_same_values(folder: RunFolder) -> None:
    tell(folder, 1, "train")
    done = CliRunner().invoke(app, [str(folder.path), "--json"])
    values = json.loads(done.stdout)
    assert (values["state"], values["round"], values["phase"]) == ("running", 1, "train")


def test_watch_ends_with_the_run(folder: RunFolder) -> None:
    tell(folder, 3, "done")
    age(folder, 5)
    write_result(folder, status="ok", reason="")
    done = CliRunner().invoke(app, [str(folder.path), "--watch", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["state"] == "done"


def write_result(folder: RunFolder, *, status: Literal["ok", "failed"], reason: str) -> None:
    from regionfed.run.result import ModelFacts, Topology
    from regionfed.run.summary import summarise

    folder.write_result(
        summarise(
            config=folder.config(),
            records=[],
            topology=Topology(engine="up", regions={"north": ("c00",)}),
            model=ModelFacts(kind="t5", parameters=1, bytes=4),
            status=status,
            reason=reason,
            notes={},
            started="2026-01-01T00:00:00+00:00",
            seconds=1.0,
        )
    )


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[tuple[Desk, str]]:
    store = JobStore(tmp_path / "desk", keep=4)
    desk = Desk(store, region="north")
    server = DeskServer(desk, "127.0.0.1:0")
    yield desk, f"127.0.0.1:{server.port}"
    server.stop(grace=0)
    store.close()


def test_a_daemon_tells_live_clients_late_ones_and_its_last_error(
    daemon: tuple[Desk, str], folder: RunFolder
) -> None:
    desk, address = daemon
    desk.lease("worker", 0.0, 2)
    desk.report({"phase": "train", "round": 2, "left_out": {"c00": "late"}, "error": "went wrong"})
    places = Places(folder=folder.path, daemons={"north": address})
    north = collect(places).regions[0]
    assert (north.coordinator, north.round, north.phase) == ("up", 2, "train")
    assert (north.clients_live, north.clients_late) == (2, {"c00": "late"})
    assert north.last_error == "went wrong"
    assert north.progress_age_s is not None


def test_a_daemon_that_is_away_is_shown_as_away_with_its_address() -> None:
    found = collect(Places(daemons={"north": "127.0.0.1:9"}))
    (north,) = found.regions
    assert north.coordinator == "away"
    assert "127.0.0.1:9" in north.last_error
    assert found.state == "unknown"


def test_a_container_knows_whom_to_ask(tmp_path: Path) -> None:
    environ = {
        "REGIONFED_TIER": "region",
        "REGIONFED_REGION": "north",
        "REGIONFED_RUNTIME": "north-superlink:9091",
        "REGIONFED_BRIDGE": "north-coordinator:9095",
        "REGIONFED_IDENTITY": str(tmp_path),
    }
    (tmp_path / "bridge.crt").touch()
    places = places_of(environ, folder=None, daemons=[], controls=[], identity=None)
    assert places.daemons == {"north": "north-coordinator:9095"}
    assert places.controls == {"north": "north-superlink:9091"}
    assert places.ca == tmp_path / "ca.crt"
    assert places.tls is not None
    plain = places_of(
        {**environ, "REGIONFED_TLS": "0"}, folder=None, daemons=[], controls=[], identity=None
    )
    assert plain.tls is None
    assert plain.ca is None


def test_wrong_words_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--daemon 'north' is not NAME=HOST:PORT"):
        places_of({}, folder=None, daemons=["north"], controls=[], identity=None)
    with pytest.raises(ConfigError, match="nobody to ask"):
        places_of({}, folder=None, daemons=[], controls=[], identity=None)
    with pytest.raises(StateError, match=r"no federation\.toml"):
        collect(Places(folder=tmp_path))


def test_a_container_without_the_variable_has_its_identity_in_the_usual_folder() -> None:
    environ = {"REGIONFED_TIER": "global", "REGIONFED_RUNTIME": "global-superlink:9091"}
    places = places_of(environ, folder=None, daemons=[], controls=[], identity=None)
    assert places.ca == Path("/identity/ca.crt")
    given = places_of({}, folder=None, daemons=["a=h:1"], controls=[], identity=None)
    assert given.ca is None
