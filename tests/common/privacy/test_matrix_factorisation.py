"""Correlated noise: its error, its sensitivity, its stream and its state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from regionfed.errors import PrivacyError, StateError
from regionfed.privacy.matrix_factorisation import (
    CorrelatedNoise,
    participation_sensitivity,
    prefix_sum_rmse,
    square_root_coefficients,
)
from regionfed.privacy.noise_source import NoiseSource


def test_error_oracles() -> None:
    common = {"rounds": 50, "participations": 5, "separation": 10}
    assert prefix_sum_rmse(bands=1, **common) == pytest.approx(11.292, abs=0.005)
    assert prefix_sum_rmse(bands=10, **common) == pytest.approx(5.305, abs=0.005)


def encoder(bands: int, rounds: int) -> np.ndarray:
    coefficients = square_root_coefficients(bands)
    return sum(
        np.diag(np.full(rounds - lag, value), -lag) for lag, value in enumerate(coefficients)
    )


def test_sensitivity_is_that_of_the_worst_schedule() -> None:
    bands, rounds, participations = 3, 12, 3
    matrix = encoder(bands, rounds)
    worst = max(
        np.linalg.norm(matrix[:, list(schedule)].sum(axis=1))
        for schedule in itertools.combinations(range(rounds), participations)
        if all(b - a >= bands for a, b in itertools.pairwise(schedule))
    )
    bound = participation_sensitivity(bands=bands, participations=participations, separation=bands)
    assert worst == pytest.approx(bound)


def test_bands_need_separation() -> None:
    with pytest.raises(PrivacyError, match="raise the minimum separation to 10"):
        participation_sensitivity(bands=10, participations=5, separation=9)
    assert participation_sensitivity(bands=10, participations=1, separation=1) > 1.0
    with pytest.raises(PrivacyError, match="band"):
        square_root_coefficients(0)


def test_streamed_noise_is_the_inverse_times_fresh_noise() -> None:
    bands, rounds, dimension = 4, 9, 3
    noise = CorrelatedNoise(dimension, bands, 2.0, 0.5, source=NoiseSource(bytes(32)))
    rows = np.stack([noise.next() for _ in range(rounds)])
    fresh = encoder(bands, rounds) @ rows
    source = NoiseSource(bytes(32))
    expected = [noise.innovation_std * source.normal(dimension) for _ in range(rounds)]
    np.testing.assert_allclose(fresh, expected, atol=1e-5)
    assert noise.innovation_std == pytest.approx(
        2.0 * 0.5 * np.linalg.norm(square_root_coefficients(bands))
    )


def test_measured_error_agrees_with_theory_and_beats_independent_noise() -> None:
    rounds, dimension, sigma = 50, 4_000, 1.0
    measured = {}
    for bands in (1, 10):
        noise = CorrelatedNoise(dimension, bands, sigma, 1.0, source=NoiseSource(b"s" * 32))
        total = np.cumsum([noise.next() for _ in range(rounds)], axis=0)
        measured[bands] = float(np.sqrt(np.mean(np.square(total))))
        # The generator spends sigma per participation, so sqrt(k) is not part of its scale.
        theory = prefix_sum_rmse(rounds=rounds, bands=bands, participations=1, separation=1)
        assert measured[bands] == pytest.approx(theory, rel=0.03)
    assert measured[10] < 0.5 * measured[1]


def test_a_fresh_process_goes_on_from_the_state() -> None:
    whole = CorrelatedNoise(5, 3, 1.0, 1.0)
    for _ in range(4):
        whole.next()
    resumed = CorrelatedNoise.from_state(whole.state())
    assert resumed.round == 4
    whole.source = NoiseSource(b"x" * 32)
    resumed.source = NoiseSource(b"x" * 32)
    for _ in range(4):
        np.testing.assert_array_equal(whole.next(), resumed.next())
    assert len(resumed.state()["history"]) == 2
    fresh = CorrelatedNoise.from_state(CorrelatedNoise(5, 3, 1.0, 1.0).state())
    assert fresh.round == 0


def test_damaged_state_is_refused() -> None:
    noise = CorrelatedNoise(5, 3, 1.0, 1.0)
    noise.next()
    noise.next()
    state = noise.state()
    with pytest.raises(StateError, match="damaged"):
        CorrelatedNoise.from_state({**state, "history": state["history"][:1]})
    with pytest.raises(StateError, match="history"):
        CorrelatedNoise.from_state({"header": state["header"]})
