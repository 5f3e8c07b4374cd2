"""At the paper's 10 clients per region the plan says beforehand what the run's report says after."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regionfed.cli.privacy import app
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.privacy.planning import USEFUL
from regionfed.report import write_report
from regionfed.run.folder import RunFolder
from regionfed.run.plan import plan_run

CLIENTS = 10
NOT_USEFUL = "the noise drowns the updates and the model will not learn"


@pytest.mark.parametrize(
    ("trained", "dimension", "at_least"),
    [
        ("T5-small", 60_500_000, 500),
        ("CNN", 6_600_000, 150),
        ("LoRA of rank 8", 295_000, 35),
        ("LoRA of rank 4", 147_000, 25),
        ("head", 4_100, 4),
    ],
)
def test_the_plan_says_that_ten_clients_are_not_enough(
    trained: str, dimension: int, at_least: float
) -> None:
    asked = ["plan", "--dimension", str(dimension), "--clients-per-round", str(CLIENTS)]
    found = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    # sigma*sqrt(d)/(n*sqrt(T)) at the default budget: sigma 5.0480, T = 50.
    assert found["ratio"] == pytest.approx(5.0480 * dimension**0.5 / (10 * 50**0.5), rel=1e-3)
    assert found["ratio"] > at_least > 10 * USEFUL
    assert not found["useful"]
    said = CliRunner().invoke(app, asked).output
    assert said.startswith("not useful: R_T = ")
    assert NOT_USEFUL in said
    assert "what would change the verdict" in said
    assert f"{found['clients_for_useful']:,} clients per region and round instead of 10" in said


def test_the_runs_own_report_agrees_with_its_plan(tmp_path: Path) -> None:
    config = FederationConfig.model_validate(
        {
            "run": {"rounds": 2, "evaluate_every": 0},
            "data": {
                "regions": 2,
                "clients_per_region": CLIENTS,
                "tasks": ["intent"],
                "builtin": {"train_queries": 12, "validation_queries": 2, "test_queries": 4},
            },
            "model": {"kind": "roberta", "preset": "tiny"},
            "training": {"steps": 1},
            "method": {"strategy": "none"},
            "privacy": {"mode": "client", "audit_metrics": "simulated"},
        }
    )
    planned = plan_run(config).privacy
    folder = RunFolder.create(config, out=tmp_path / "run")
    result = simulate(config, folder)
    told = result.privacy.feasibility
    assert planned.endswith(told)
    (ratio,) = re.findall(r"^not useful: R_T = ([\d.e+]+), above 0.3; ", told)
    assert NOT_USEFUL in told
    # From what the ledger was charged, not from the plan.
    sigma = next(c.noise_multiplier for c in _charges(folder))
    d = result.model.parameters
    assert float(ratio) == pytest.approx(sigma * d**0.5 / (CLIENTS * 2**0.5), rel=6e-3)
    assert float(ratio) > 10 * USEFUL
    page = write_report(folder.path).read_text(encoding="utf-8")
    assert f"Not useful: R_T = {ratio}, above 0.3; {NOT_USEFUL}" in page


def _charges(folder: RunFolder) -> list:
    return [r for r in folder.metrics().read() if getattr(r, "release", "") == "training-update"]
