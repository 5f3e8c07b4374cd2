"""The benchmark's core gives what the three tiers give, on the same federation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regionfed.bench.federation import Federation
from regionfed.bench.scoring import score
from regionfed.bench.systems.base import System
from regionfed.bench.systems.fedavg import FedAvg
from regionfed.bench.systems.regionfed import RegionFedGrad, RegionFedInterp, RegionFedResidual
from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.method.vectors import Vector
from regionfed.run.folder import RunFolder
from regionfed.run.result import Result

BY_EXAMPLES: dict[str, dict[str, Any]] = {
    "coordinator": {"cohort": 2, "client_weights": "examples"},
    "server": {"region_weights": "examples"},
}


def simulated(config: FederationConfig, tmp_path: Path) -> tuple[Vector, Result]:
    folder = RunFolder.create(config, out=tmp_path / "run")
    result = simulate(config, folder)
    checkpoint = folder.checkpoints(config.run.keep_checkpoints).load_latest()
    assert checkpoint is not None
    return checkpoint.arrays["theta"], result


@pytest.mark.parametrize(
    ("kind", "strategy", "sections"),
    [
        (FedAvg, "none", BY_EXAMPLES),
        (RegionFedResidual, "residual", {}),
        (RegionFedResidual, "residual", {"method": {"residual": {"final_learning_rate": 0.1}}}),
        (RegionFedGrad, "grad", {}),
        (RegionFedInterp, "interp", {}),
    ],
)
def test_core_equals_simulate(
    make_federation: Any,
    tmp_path: Path,
    kind: type[System],
    strategy: str,
    sections: dict[str, dict[str, Any]],
) -> None:
    run = {"seed": 3, "rounds": 2, "evaluate_every": 0}
    method = {"strategy": strategy, **sections.get("method", {})}
    federation: Federation = make_federation(run=run, **{**sections, "method": method})
    theta, result = simulated(federation.config, tmp_path)
    system: Any = kind(federation)
    for number in (1, 2):
        system.round(number)
    np.testing.assert_allclose(system.theta, theta, atol=2e-6)
    found = score(federation, system.served(2, final=True))
    level = result.levels["global" if strategy == "none" else "regional"]
    assert found.overall == pytest.approx(level.overall, abs=1e-6)
    assert found.tasks == pytest.approx(level.tasks, abs=1e-6)
    for region, scores in found.regions.items():
        assert scores.overall == pytest.approx(level.regions[region].overall, abs=1e-6)
