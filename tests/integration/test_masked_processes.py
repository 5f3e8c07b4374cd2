"""Secure aggregation through real processes: the model of `simulate`, and a client that dies.

Noise is off, so the rounding comes from the seed and the final model must be equal bit for bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.engine.enrol import enrol
from regionfed.flower.local import Fault
from regionfed.launch import LocalFederation
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent
from regionfed.run.records import RoundRecord
from regionfed.run.result import Result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

FIRST_ROUND, LATER_ROUND = 3, 2
"""Exchanges of a masked round: the unmasking of an undisturbed one opens the next."""
VICTIM = "north/c01"


def configure(*, masked: bool, rounds: int = 3, **coordinator: Any) -> FederationConfig:
    """Two regions of three clients with a tiny T5."""
    return FederationConfig.model_validate(
        {
            "run": {"rounds": rounds, "seed": 7, "evaluate_every": 0},
            "data": {
                "regions": ["north", "south"],
                "clients_per_region": 3,
                "builtin": {"train_queries": 24, "validation_queries": 6, "test_queries": 6},
            },
            "model": {"kind": "t5", "preset": "tiny"},
            "training": {"steps": 2, "batch_size": 8},
            "method": {"strategy": "residual"},
            "coordinator": coordinator,
            "privacy": {"mode": "off", "secure_aggregation": {"enabled": masked}},
        }
    )


def final(folder: RunFolder) -> np.ndarray:
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    return checkpoint.arrays["theta"]


def rounds(folder: RunFolder) -> list[RoundRecord]:
    last = {r.round: r for r in folder.metrics().read() if isinstance(r, RoundRecord)}
    return [last[number] for number in sorted(last)]


def exchanges(folder: RunFolder) -> list[int | None]:
    """Client exchanges of each round, which are the same in all regions."""
    found = []
    for record in rounds(folder):
        (number,) = {region.exchanges for region in record.regions.values()}
        found.append(number)
    return found


def simulated(
    config: FederationConfig, path: Path, **faults: dict[str, Fault]
) -> tuple[Result, RunFolder]:
    folder = RunFolder.create(config, out=path)
    return simulate(config, folder, faults=faults), folder


def test_real_processes_end_with_the_simulated_bits(tmp_path: Path) -> None:
    config = configure(masked=True)
    result, alone = simulated(config, tmp_path / "simulate")
    processes = RunFolder.create(config, out=tmp_path / "up")
    enrol(config, processes)
    deployed = LocalFederation(config, processes).run()
    assert deployed.status == result.status == "ok"
    assert (deployed.left_out, deployed.skipped) == ((), ())
    np.testing.assert_array_equal(final(processes), final(alone))
    assert exchanges(alone) == exchanges(processes) == [FIRST_ROUND, LATER_ROUND, LATER_ROUND]
    _, plain = simulated(configure(masked=False), tmp_path / "plain")
    assert exchanges(plain) == [1, 1, 1]
    # Training makes more of the rounding to the grid, which is 5e-7 to begin with.
    np.testing.assert_allclose(final(alone), final(plain), atol=2e-3)


@pytest.mark.parametrize("for_good", [False, True])
def test_a_client_killed_between_its_shares_and_its_vector(tmp_path: Path, for_good: bool) -> None:
    """Restarted it answers after all; left dead, its masks are removed by the others' shares."""
    config = configure(masked=True, rounds=1, round_deadline=60.0)
    region, client = VICTIM.split("/")
    faults = {region: {client: Fault(error="switched off")}} if for_good else {}
    expected, alone = simulated(config, tmp_path / "simulate", **faults)
    folder = RunFolder.create(config, out=tmp_path / "up")
    enrol(config, folder)
    killed: list[int] = []
    with LocalFederation(config, folder) as federation:

        def strike(event: ProgressEvent) -> None:
            # The coordinator's phases are `train open`, `train` and `train unmask`.
            asked = event.tier == "coordinator" and event.region == region
            if asked and event.phase == "train" and not killed:
                killed.append(federation.kill(VICTIM, for_good=for_good))
                # Its app, too, which would go on without it.
                if f"{VICTIM}/clientapp" in federation.processes():
                    federation.kill(f"{VICTIM}/clientapp")

        federation.submit()
        result = federation.wait(strike)
    assert result.status == expected.status == "ok", result.reason
    assert killed
    assert result.skipped == ()
    assert {(left.region, left.client) for left in result.left_out} == (
        {(region, client)} if for_good else set()
    )
    assert exchanges(folder) == [FIRST_ROUND]
    np.testing.assert_array_equal(final(folder), final(alone))
