"""`regionfed privacy`, through the command line's own parser."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regionfed.cli.privacy import AuditFailed, app
from regionfed.errors import ConfigError, PrivacyError, StateError
from regionfed.privacy import release_pipeline
from regionfed.privacy.events import ExampleLevelTraining, RawQuery, TrainingUpdate
from regionfed.privacy.ledger_records import LedgerTerms
from regionfed.privacy.ledger_sqlite import SqliteLedger, ledger_path


def ask(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None:
        raise result.exception
    return result.output


def ask_json(*arguments: str) -> dict[str, Any]:
    return json.loads(ask(*arguments, "--json"))


PAPER = ("epsilon", "--noise-multiplier", "4", "--sample-rate", "0.1", "--rounds", "50")


def test_epsilon_of_the_published_settings() -> None:
    answer = ask_json(*PAPER, "--delta", "1e-5")
    assert (answer["pld"], answer["rdp"]) == (0.6842, 0.7577)
    assert answer["paper_formula"] == 0.5998
    assert "not a valid epsilon" in answer["paper_formula_label"]
    assert ask_json(*PAPER, "--delta", "1e-5", "--participations", "5")["pld"] == 2.2581
    words = ask(*PAPER)
    assert "PLD  0.6842" in words
    assert "does not hold against a coordinator" in words


def test_noise_of_a_budget() -> None:
    assert ask_json("noise", "--epsilon", "2", "--participations", "5") | {
        "noise_multiplier": 4.4583,
        "mu": 0.50155,
    } == ask_json("noise", "--epsilon", "2", "--participations", "5")
    assert "4.4583" in ask("noise", "--participations", "5")
    with pytest.raises(PrivacyError, match="positive and finite"):
        ask("noise", "--epsilon", "0")


def test_plan_says_whether_it_is_useful() -> None:
    words = ask("plan", "--dimension", "60500000", "--clients-per-round", "10")
    assert words.startswith("not useful")
    for part in (
        "LoRA",
        "head",
        "routing is off",
        "5.0480",
        "clients per region and round instead",
    ):
        assert part in words
    answer = ask_json("plan", "--dimension", "4100", "--clients-per-round", "1000")
    assert answer["useful"]
    assert answer["proposals"] == []
    assert answer["conflict"]["routing"]
    fewer = ask_json(
        "plan", "--dimension", "4100", "--clients-per-round", "1000", "--unused", "loss-grid"
    )
    assert len(fewer["allocations"]) == 5


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    for region, rounds in (("north", 4), ("south", 1)):
        terms = LedgerTerms(region=region, epsilon=2.0, delta=1e-5)
        ledger = SqliteLedger(ledger_path(tmp_path / region, region), terms)
        for round in range(rounds):
            ledger.release(ledger.charge(TrainingUpdate(round=round, noise_multiplier=4.0)))
        ledger.charge(
            ExampleLevelTraining(
                round=0, client="c", noise_multiplier=4.0, sample_rate=0.1, steps=50
            )
        )
        ledger.close()
    return tmp_path


def test_ledger_accounts_a_run(run_folder: Path) -> None:
    answer = ask_json("ledger", str(run_folder))
    north = answer["regions"]["north"]
    assert north["eps_coordinator"] == pytest.approx(1.9931, abs=5e-4)
    assert north["left"] == pytest.approx(0.0069, abs=5e-4)
    assert (north["charges"], north["releases"], north["chain"]) == (5, 4, "intact")
    assert north["example_level"]["c"] == pytest.approx(0.6842, abs=5e-4)
    assert answer["system"]["regions"] == ["north"]
    moved = ask_json("ledger", str(run_folder), "--moved", "north,south")
    assert moved["system"]["epsilon"] == pytest.approx(2.2581, abs=5e-4)
    words = ask("ledger", str(run_folder))
    assert "hash chain intact" in words
    assert "one example of a client, its own unit" in words


def test_ledger_checks_a_recorded_head(run_folder: Path) -> None:
    path = str(ledger_path(run_folder / "north", "north"))
    head = ask_json("ledger", path)["regions"]["north"]["head"]
    assert ask_json("ledger", path, "--head", head)["regions"]["north"]["head"] == head
    with pytest.raises(StateError, match="not in the chain"):
        ask("ledger", path, "--head", "0" * 63 + "1")
    with pytest.raises(ConfigError, match="one ledger"):
        ask("ledger", str(run_folder), "--head", head)
    with pytest.raises(ConfigError, match="region north"):
        ask("ledger", path, path)


def test_ledger_finds_nothing_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="was the run private"):
        ask("ledger", str(tmp_path))


def test_infinite_epsilon_is_valid_json(tmp_path: Path) -> None:
    terms = LedgerTerms(region="west", epsilon=math.inf, delta=1e-5)
    ledger = SqliteLedger(ledger_path(tmp_path, "west"), terms)
    ledger.charge(RawQuery(round=0, what="losses"))
    ledger.close()
    answer = ask_json("ledger", str(tmp_path))
    assert answer["regions"]["west"]["eps_coordinator"] == "infinite"
    assert answer["system"]["epsilon"] == "infinite"


def audit_arguments(mode: str) -> tuple[str, ...]:
    sizes = ("--dimension", "4000", "--canaries", "200", "--held-out", "6400")
    return ("audit", "--noise-multiplier", "2", "--mode", mode, *sizes)


@pytest.mark.parametrize("mode", ["client", "client-mf", "client-strict"])
def test_audit_drives_the_real_pipeline(mode: str) -> None:
    result = CliRunner().invoke(app, [*audit_arguments(mode), "--json"])
    answer = json.loads(result.output)
    # The noise is fresh each time, so the figures get five standard deviations and the verdict
    # itself is only checked to be the one that the figures call for.
    assert answer["held_out_ratio"] == pytest.approx(1.0, abs=0.08)
    assert answer["mode"] == mode
    assert answer["passed"] == (answer["findings"] == [])
    assert isinstance(result.exception, AuditFailed) == (not answer["passed"])
    assert (abs(answer["correlation"]) < 0.1) == (mode != "client-mf")


def test_audit_fails_when_the_release_forgets_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        release_pipeline,
        "integer_gaussian",
        lambda dimension, **_: release_pipeline.np.zeros(dimension, dtype="int64"),
    )
    with pytest.raises(AuditFailed, match="left out"):
        ask(*audit_arguments("client"))


def test_exit_codes_of_the_module_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regionfed.cli.privacy", "ledger", str(tmp_path / "none")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == StateError.exit_code
    assert "there is no privacy ledger" in done.stderr
