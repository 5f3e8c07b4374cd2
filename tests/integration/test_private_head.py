"""A private run that is useful, and one that is not, each as its R_T predicts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from regionfed.privacy.planning import NEARLY_LOSSLESS, USEFUL

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "private_head.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("private_head", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["private_head"] = module
    spec.loader.exec_module(module)
    return module


def test_with_thirty_clients_in_a_round_the_noise_drowns_the_head(benchmark: ModuleType) -> None:
    # The noise is fresh each time and can be lucky once, so three runs are judged together.
    outcomes = [benchmark.measure(clients=60, rounds=10) for _ in range(3)]
    assert all(outcome.ratio > USEFUL for outcome in outcomes)
    assert all(outcome.non_private > outcome.untrained + 0.2 for outcome in outcomes)
    assert sum(outcome.kept for outcome in outcomes) / len(outcomes) < 0.6
    assert all(outcome.epsilon == pytest.approx(2.0, abs=1e-3) for outcome in outcomes)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_with_a_thousand_the_gain_is_kept(benchmark: ModuleType) -> None:
    outcome = benchmark.measure(clients=2000, rounds=10)
    assert outcome.ratio <= NEARLY_LOSSLESS
    assert outcome.non_private > outcome.untrained + 0.2
    assert outcome.kept >= 0.9
    assert outcome.epsilon <= 2.0 + 1e-5
