"""The sketch, the debiased estimator, and the gate that keeps pure noise from deciding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from regionfed.errors import PrivacyError, UpdateError
from regionfed.privacy.conflict_gate import conflict_gate
from regionfed.privacy.sketch import (
    average_conflict,
    client_sketch,
    count_sketch,
    debiased_conflict,
)


def random_vector(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.standard_normal(size).astype(np.float32)


def test_a_sketch_is_linear_and_seeded() -> None:
    rng = np.random.default_rng(0)
    a, b = (random_vector(rng, 3_000_000) for _ in range(2))
    together = count_sketch(a + b, width=32, seed=7)
    apart = count_sketch(a, width=32, seed=7) + count_sketch(b, width=32, seed=7)
    np.testing.assert_allclose(together, apart, atol=0.05)
    assert together.shape == (32,)
    assert not np.allclose(together, count_sketch(a + b, width=32, seed=8))


def test_a_sketch_keeps_squared_norms_on_average() -> None:
    vector = random_vector(np.random.default_rng(1), 5_000)
    squares = [np.sum(np.square(count_sketch(vector, width=64, seed=s))) for s in range(400)]
    assert np.mean(squares) == pytest.approx(np.sum(np.square(vector)), rel=0.03)


def test_chunks_do_not_share_their_hashes() -> None:
    chunk = random_vector(np.random.default_rng(2), 1 << 20)
    twice = np.concatenate([chunk, -chunk])
    assert np.linalg.norm(count_sketch(twice, width=32, seed=3)) > 100.0


def test_a_client_sketch_is_bounded() -> None:
    spike = np.zeros(1_000, dtype=np.float32)
    spike[:40] = 1.0 / np.sqrt(40)
    for seed in range(50):
        sketch = client_sketch(spike, width=32, seed=seed, clip_norm=1.0)
        assert np.linalg.norm(sketch.astype(np.float64)) <= 1.0
    with pytest.raises(PrivacyError, match="width"):
        count_sketch(spike, width=0, seed=1)


def test_the_estimator_is_unbiased_without_conflict_and_with() -> None:
    rng = np.random.default_rng(3)
    noise = np.array([0.5, 1.0, 2.0, 0.25])
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    truth = rng.standard_normal((4, 32))
    centre = weights @ truth
    expected = np.sum(np.square(truth - centre), axis=1)
    for signal, target in ((truth, expected), (np.zeros((4, 32)), np.zeros(4))):
        estimates = [
            debiased_conflict(
                signal + noise[:, None] * rng.standard_normal((4, 32)),
                noise_std=noise,
                weights=weights,
            )
            for _ in range(3_000)
        ]
        squared = np.array([estimate.squared for estimate in estimates])
        error = squared.std(axis=0) / np.sqrt(3_000)
        assert np.all(np.abs(squared.mean(axis=0) - target) < 4.5 * error)
        if not signal.any():
            np.testing.assert_allclose(squared.std(axis=0), estimates[0].noise_std, rtol=0.12)


def test_raw_distances_rank_noise_where_averaged_debiased_ones_rank_conflict() -> None:
    rng = np.random.default_rng(4)
    regions, width = 8, 32
    direction = rng.standard_normal((regions, width))
    direction -= direction.mean(axis=0)
    direction *= (np.linspace(0.2, 1.6, regions) / np.linalg.norm(direction, axis=1))[:, None]
    true = np.linalg.norm(direction - direction.mean(axis=0), axis=1)
    # Regions with the least conflict have the fewest clients, hence the most noise.
    noise = np.linspace(0.4, 0.08, regions)
    history, raw = [], np.zeros(regions)
    for _ in range(20):
        seen = direction + noise[:, None] * rng.standard_normal((regions, width))
        raw += np.sum(np.square(seen - seen.mean(axis=0)), axis=1)
        history.append(debiased_conflict(seen, noise_std=noise))
    averaged = average_conflict(history, window=20)
    assert averaged.rounds == 20
    assert spearmanr(averaged.conflict, true).statistic > 0.9
    assert spearmanr(raw, true).statistic < 0.0
    assert averaged.above_noise[-1]


def test_pure_noise_does_not_stand_out() -> None:
    rng = np.random.default_rng(5)
    noise = np.ones(6)
    history = [debiased_conflict(rng.standard_normal((6, 32)), noise_std=noise) for _ in range(10)]
    averaged = average_conflict(history, window=10)
    assert averaged.above_noise.sum() <= 1
    with pytest.raises(UpdateError, match="no conflict estimate"):
        average_conflict([], window=10)
    with pytest.raises(UpdateError, match="6 regional means"):
        debiased_conflict(rng.standard_normal((6, 32)), noise_std=np.ones(5))


@pytest.mark.parametrize(
    ("clients", "measured", "routing", "window"),
    [
        (10, None, False, 0),
        (49, 100, False, 0),
        (50, None, True, 20),
        (99, 19, False, 20),
        (99, 20, True, 20),
        (100, 9, False, 10),
        (100, 10, True, 10),
    ],
)
def test_gate(clients: int, measured: int | None, routing: bool, window: int) -> None:
    gate = conflict_gate(clients_per_region=clients, private=True, rounds_measured=measured)
    assert (gate.routing, gate.measured_alpha, gate.window) == (routing, routing, window)
    assert ("routing is off and alpha_r is constant" in gate.reason) != routing


def test_gate_without_noise_and_without_clients() -> None:
    gate = conflict_gate(clients_per_region=3, private=False)
    assert gate.routing
    assert gate.window == 1
    with pytest.raises(PrivacyError, match="at least 1"):
        conflict_gate(clients_per_region=0, private=True)
