"""The privacy modes through all three tiers, in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from private_runs import SECURE, charges, ledgers, prepare, theta
from test_convex_federation import ROUNDS, pseudo_gradient, write_rows

import regionfed_coordinator.region as region_module
from regionfed.engine import simulate
from regionfed.errors import BudgetExhausted, ConfigError
from regionfed.privacy.events import (
    EvaluationMetrics,
    LookAheadUpdate,
    LossGrid,
    Noise,
    RawQuery,
    RegionalMeanRelease,
    TrainingUpdate,
)
from regionfed.privacy.gdp import mu_to_epsilon
from regionfed.privacy.participation import ParticipationCounter
from regionfed.run.records import PersonaliseRecord

NEARLY_NONE = {"noise_multiplier": 1e-5, "budget": {"epsilon": 1e12}}
REGIONS = {"r0", "r1", "r2"}


def clipped_mean(theta: np.ndarray, region: Any, *, clip: float, divisor: int) -> np.ndarray:
    """Each client's update clipped, summed, divided by the public number."""
    total = np.zeros_like(theta)
    for rows in region.values():
        update = pseudo_gradient(theta, rows["train"])
        total += update * min(1.0, clip / float(np.linalg.norm(update)))
    return total / divisor


@pytest.mark.parametrize("secure", [False, True])
def test_mode_client_is_the_clipped_sum_over_the_expected_cohort(
    tmp_path: Path, secure: bool
) -> None:
    table = write_rows(tmp_path / "rows.jsonl")
    privacy = {"mode": "client", "clipping_norm": 0.5, "expected_cohort": 8, **NEARLY_NONE}
    config, folder = prepare(tmp_path, privacy={**privacy, **(SECURE if secure else {})})
    result = simulate(config, folder)
    expected = np.linspace(-1, 1, 6)
    for _ in range(ROUNDS):
        means = [clipped_mean(expected, r, clip=0.5, divisor=8) for r in table.values()]
        expected = expected - 0.9 * np.mean(means, axis=0)
    np.testing.assert_allclose(theta(folder), expected, atol=2e-4)
    assert result.status == "ok"
    assert result.levels == {}
    assert "scores were not asked for" in " ".join(result.privacy.notes)


def test_the_default_budget_is_spent_to_the_end_and_every_charge_is_told(tmp_path: Path) -> None:
    budget = {"evaluation_share": 0.1, "loss_share": 0.1}
    config, folder = prepare(
        tmp_path, strategy="interp", privacy={"mode": "client", "budget": budget}
    )
    result = simulate(config, folder)
    assert result.privacy.epsilon == pytest.approx(2.0, abs=1e-4)
    kept = ledgers(folder)
    assert set(kept) == REGIONS
    for region, ledger in kept.items():
        kinds = [type(event) for event in ledger.events()]
        assert kinds == [TrainingUpdate] * ROUNDS + [LookAheadUpdate, LossGrid, EvaluationMetrics]
        assert ledger.counts() == (ROUNDS + 3, ROUNDS + 3)
        told = [c for c in charges(folder) if c.region == region]
        assert [c.entry for c in told] == sorted(c.entry or 0 for c in told)
        assert ledger.verify(expected_head=told[-1].hash)
        assert told[-1].epsilon == pytest.approx(ledger.spent().eps_coordinator)
    row = result.privacy.regions["r0"]
    assert row.releases == {
        "training-update": ROUNDS,
        "look-ahead-update": 1,
        "loss-grid": 1,
        "evaluation-metrics": 1,
    }
    assert row.epsilon_external == row.epsilon
    assert result.privacy.feasibility.startswith("not useful")
    assert "not a valid epsilon" in result.privacy.paper
    assert any("scores are noised" in note for note in result.privacy.notes)
    assert any("routing is off and alpha_r is constant" in note for note in result.privacy.notes)
    report = [r for r in folder.metrics().read() if isinstance(r, PersonaliseRecord)]
    assert {r.alpha for r in report} == {0.75}


@pytest.mark.parametrize(
    ("mode", "noise", "section"),
    [
        ("client", Noise.GAUSSIAN, {}),
        ("client-mf", Noise.CORRELATED, {"bands": 2, "budget": {"max_participations": 3}}),
        ("client-strict", Noise.SKELLAM, SECURE),
    ],
)
def test_each_mode_has_its_own_noise(
    tmp_path: Path, mode: str, noise: Noise, section: dict[str, Any]
) -> None:
    cohort = 2 if mode == "client-mf" else 0
    config, folder = prepare(
        tmp_path,
        run={"rounds": 3},
        coordinator={"cohort": cohort},
        privacy={"mode": mode, **section},
    )
    result = simulate(config, folder)
    assert (result.status, result.rounds_done, result.skipped) == ("ok", 3, ())
    for ledger in ledgers(folder).values():
        assert [e.noise for e in ledger.events() if isinstance(e, TrainingUpdate)] == [noise] * 3
        spent = ledger.spent().eps_coordinator
        assert 1.5 < spent <= 2.0 + 1e-5
    assert np.linalg.norm(theta(folder)) > 1.0


def test_mode_paper_says_what_it_is(tmp_path: Path) -> None:
    paper = {"mode": "paper", "noise_multiplier": 4.0, "audit_metrics": "simulated"}
    config, folder = prepare(tmp_path, privacy=paper)
    result = simulate(config, folder)
    for ledger in ledgers(folder).values():
        assert {type(event) for event in ledger.events()} == {RegionalMeanRelease}
    assert result.privacy.epsilon == pytest.approx(mu_to_epsilon(5**0.5 / 4, 1e-5), abs=1e-3)
    config, folder = prepare(tmp_path, strategy="grad", name="raw", privacy={"mode": "paper"})
    result = simulate(config, folder)
    assert result.privacy.epsilon == float("inf")
    assert all(
        any(isinstance(e, RawQuery) for e in ledger.events()) for ledger in ledgers(folder).values()
    )


def test_masks_change_the_sum_by_no_more_than_the_grid(tmp_path: Path) -> None:
    plain_config, plain = prepare(tmp_path, strategy="residual", name="plain")
    config, folder = prepare(tmp_path, strategy="residual", name="masked", privacy=SECURE)
    simulate(plain_config, plain)
    result = simulate(config, folder)
    np.testing.assert_allclose(theta(folder), theta(plain), atol=1e-5)
    assert result.privacy.secure_aggregation
    keys = sorted(folder.path.rglob("device.json"))
    assert len(keys) == 12
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    states = list(folder.path.rglob("*.state"))
    assert {state.stat().st_mode & 0o777 for state in states} == {0o600}


def test_a_run_beyond_its_budget_stops_with_model_result_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from regionfed.cli.main import run

    three = (mu_to_epsilon(3**0.5 / 2, 1e-5) + mu_to_epsilon(1.0, 1e-5)) / 2
    _, folder = prepare(
        tmp_path,
        strategy="residual",
        run={"evaluate_every": 1},
        privacy={
            "mode": "client",
            "noise_multiplier": 2.0,
            "audit_metrics": "simulated",
            "budget": {"epsilon": three},
        },
    )
    code = run(["simulate", str(folder.config_file), "--out", str(tmp_path / "stops")])
    assert code == BudgetExhausted.exit_code == 10
    said = capsys.readouterr().err
    assert "3 of 5 rounds" in said
    stops = type(folder)(tmp_path / "stops")
    result = stops.read_result()
    assert (result.status, result.rounds_done) == ("stopped", 3)
    assert "budget" in result.reason
    assert stops.report_file.is_file()
    assert all(ledger.counts() == (3, 3) for ledger in ledgers(stops).values())
    found = stops.checkpoints(1).load_latest()
    assert found is not None
    assert found.round == 3
    assert {"global", "regional"} <= set(result.levels)
    assert any("outside the promise" in note for note in result.privacy.notes)
    # The fourth round was refused before anybody trained for it.
    asked = stops.path.rglob("participation.sqlite")
    taken = [ParticipationCounter(file, max_participations=5) for file in asked]
    assert len(taken) == 12
    (run_id,) = {str(path.parent.name) for path in stops.path.rglob("*.ledger.sqlite")}
    assert {tuple(counter.rounds(run_id)) for counter in taken} == {(1, 2, 3)}


def test_a_client_refuses_to_be_asked_too_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_module, "rotation", lambda clients, **_: sorted(clients))
    config, folder = prepare(
        tmp_path,
        run={"rounds": 4},
        coordinator={"cohort": 2},
        privacy={"mode": "client", "budget": {"max_participations": 2}},
    )
    result = simulate(config, folder)
    assert result.rounds_done == 2
    assert {(s.region, s.round) for s in result.skipped} >= {("r0", 3), ("r1", 4)}
    assert "c1: this client took part 2 times" in result.skipped[0].reason


def test_more_rounds_than_participations_are_refused_at_the_start(tmp_path: Path) -> None:
    config, folder = prepare(
        tmp_path, privacy={"mode": "client", "budget": {"max_participations": 2}}
    )
    with pytest.raises(ConfigError, match="need more than the 2 participations"):
        simulate(config, folder)


def test_the_ledger_files_verify_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from regionfed.cli.main import run

    config, folder = prepare(tmp_path, run={"rounds": 1}, privacy={"mode": "client"})
    simulate(config, folder)
    assert run(["privacy", "ledger", str(folder.path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["regions"]) == REGIONS
    assert told["system"]["epsilon"] == pytest.approx(2.0, abs=1e-3)
