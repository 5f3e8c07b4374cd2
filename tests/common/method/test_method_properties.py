import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regionfed.errors import ConfigError, DataError, StateError, UpdateError
from regionfed.method import vectors as vectors_module
from regionfed.method.compose import compose
from regionfed.method.conflict import (
    calibrate_mu,
    conflict,
    conflict_matrix,
    label_divergence,
    noise_floor,
    variance_from_halves,
    without_floor,
)
from regionfed.method.server_opt import Adam, Momentum, ServerState, Sgd, derive_mean_update
from regionfed.method.strength import strength
from regionfed.method.user import WINDOW, UserCalibration, user_strength
from regionfed.method.vectors import check_vector, clip_to_norm, l2_norm, weighted_mean

entries = st.floats(-100, 100, width=32)
flat = hnp.arrays(np.float32, 7, elements=entries)
several = st.lists(flat, min_size=1, max_size=6)
amount = st.floats(0, 1e6)


@given(several, st.data())
def test_weighted_mean_is_the_float64_mean(vectors, data):
    weights = data.draw(st.lists(st.floats(0.1, 50), min_size=len(vectors), max_size=len(vectors)))
    expected = np.average(np.stack(vectors).astype(np.float64), axis=0, weights=weights)
    np.testing.assert_allclose(weighted_mean(vectors, weights=weights), expected, atol=1e-5)


def test_mean_accumulates_in_float64():
    # In float32 the small terms would vanish beside 1e8.
    column = [1e8, 1.0, 1.0, 1.0, 1.0, -1e8]
    mean = weighted_mean([np.asarray([x], dtype=np.float32) for x in column])
    assert mean[0] == np.float32(4 / 6)


@pytest.mark.parametrize(
    ("vectors", "weights"),
    [([], None), (["ab"], [1.0]), (["a"], [1.0, 2.0]), (["a"], [0.0]), (["a", "b"], [1.0])],
)
def test_mean_refuses_what_does_not_fit(vectors, weights):
    sizes = {"a": 3, "b": 3, "ab": 3}
    arrays = [np.ones(sizes[name], dtype=np.float32) for name in vectors]
    if vectors == ["ab"]:
        arrays.append(np.ones(4, dtype=np.float32))
    with pytest.raises(UpdateError):
        weighted_mean(arrays, weights=weights)


@pytest.mark.parametrize(
    "bad",
    [np.ones(3), np.ones((2, 2), np.float32), np.ones(0, np.float32), np.float32([1, np.nan])],
)
def test_unusable_vectors_are_named(bad):
    with pytest.raises(UpdateError, match="mine"):
        check_vector(bad, name="mine")


@given(flat, st.floats(1e-3, 1e3))
def test_clip_bounds_the_norm_and_keeps_the_direction(vector, bound):
    clipped = clip_to_norm(vector, bound)
    assert l2_norm(clipped) <= bound * (1 + 1e-6)
    norm = l2_norm(vector)
    np.testing.assert_allclose(clipped * max(1.0, norm / bound), vector, rtol=1e-5, atol=1e-30)
    assert clip_to_norm(vector, math.inf) is vector


def test_blocks_do_not_change_results(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 1000)).astype(np.float32)
    before = (vectors_module.distance(a, b), compose(a, regional=b, alpha_region=0.3))
    monkeypatch.setattr(vectors_module.blocks, "__kwdefaults__", {"step": 17})
    after = (vectors_module.distance(a, b), compose(a, regional=b, alpha_region=0.3))
    assert before[0] == pytest.approx(after[0], rel=1e-14)
    np.testing.assert_array_equal(before[1], after[1])


@given(several)
def test_conflict_matrix_agrees_with_pairs(vectors):
    found = conflict_matrix(vectors)
    np.testing.assert_array_equal(found.distances, found.distances.T)
    assert np.all(np.abs(found.cosines) <= 1)
    for i, a in enumerate(vectors):
        for j, b in enumerate(vectors):
            assert found.distances[i, j] == pytest.approx(conflict(a, b), abs=1e-9)


@given(st.lists(amount, min_size=1, max_size=9))
def test_mu_splits_the_regions_in_halves(conflicts):
    mu = calibrate_mu(conflicts)
    assert sum(d < mu for d in conflicts) <= len(conflicts) / 2
    assert sum(d > mu for d in conflicts) <= len(conflicts) / 2


@given(amount, amount, st.floats(0.01, 100), st.floats(0, 1))
def test_strength_is_bounded_and_monotone(d, mu, tau, alpha_min):
    alpha = strength(d, mu=mu, tau=tau, alpha_min=alpha_min)
    assert alpha_min - 1e-12 <= alpha <= 1 + 1e-12
    assert strength(d + 1, mu=mu, tau=tau, alpha_min=alpha_min) >= alpha - 1e-12


@given(st.floats(0, 100), st.floats(0.01, 100), st.floats(1e-3, 1e3))
def test_scale_free_strength_ignores_the_unit(d, mu, factor):
    plain = strength(d, mu=mu, scale="scale-free")
    assert strength(d * factor, mu=mu * factor, scale="scale-free") == pytest.approx(plain)


def test_scale_free_strength_at_its_limit():
    assert strength(0.0, mu=0.0, scale="scale-free") == 0.75
    assert strength(0.1, mu=0.0, scale="scale-free") == 1.0


@pytest.mark.parametrize(
    "wrong", [{"mu": -1}, {"mu": math.inf}, {"tau": 0}, {"alpha_min": 2}, {"scale": "free"}]
)
def test_strength_refuses(wrong):
    with pytest.raises(ConfigError):
        strength(1.0, **{"mu": 1.0, **wrong})


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6), st.data())
def test_divergence_is_not_negative_and_zero_on_itself(region, data):
    rest = data.draw(st.lists(st.integers(0, 50), min_size=len(region), max_size=len(region)))
    both = [a + b for a, b in zip(region, rest, strict=True)]
    assert label_divergence(region, both) >= 0
    assert label_divergence(region, region) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("region", "everyone", "smoothing"),
    [([1, 1], [1], 1), ([1, -1], [1, 1], 1), ([0, 0], [1, 1], 0), ([1, 1], [2, 0], 0)],
)
def test_divergence_refuses(region, everyone, smoothing):
    with pytest.raises(DataError):
        label_divergence(region, everyone, smoothing=smoothing)


def test_noise_floor_is_the_conflict_of_alike_regions():
    rng = np.random.default_rng(1)
    clients, dim, spread = [4, 6, 10], 30, [1.0, 2.0, 0.5]
    squares, estimates = np.zeros(3), np.zeros(3)
    repeats = 2000
    for _ in range(repeats):
        data = [
            (s * rng.standard_normal((n, dim)) + 3.0).astype(np.float32)
            for n, s in zip(clients, spread, strict=True)
        ]
        means = [x.mean(axis=0) for x in data]
        g = weighted_mean(means)
        squares += [conflict(m, g) ** 2 for m in means]
        estimates += [
            variance_from_halves(
                x[: n // 2 - 1].mean(axis=0),
                x[n // 2 - 1 :].mean(axis=0),
                n_a=n // 2 - 1,
                n_b=n - n // 2 + 1,
            )
            for x, n in zip(data, clients, strict=True)
        ]
    truth = [s * s * dim / n for n, s in zip(clients, spread, strict=True)]
    np.testing.assert_allclose(estimates / repeats, truth, rtol=0.05)
    np.testing.assert_allclose(noise_floor(truth), np.sqrt(squares / repeats), rtol=0.03)
    assert noise_floor([2.0])[0] == 0.0
    assert without_floor(5.0, floor=3.0) == pytest.approx(4.0)
    assert without_floor(1.0, floor=3.0) == 0.0


@given(flat, flat, flat, st.floats(0, 1), st.floats(0, 1))
def test_compose(theta, regional, user, a, b):
    expected = theta + a * regional.astype(np.float64) + b * user.astype(np.float64)
    served = compose(theta, regional=regional, alpha_region=a, user=user, alpha_user=b)
    np.testing.assert_allclose(served, expected, rtol=1e-6, atol=1e-30)
    kept = theta.copy()
    same = compose(kept, regional=regional, alpha_region=a, user=user, alpha_user=b, out=kept)
    assert same is kept
    np.testing.assert_array_equal(same, served)
    np.testing.assert_array_equal(compose(theta), theta)


def test_compose_refuses():
    theta = np.ones(3, np.float32)
    with pytest.raises(UpdateError, match="theta_r"):
        compose(theta, regional=np.ones(4, np.float32))
    with pytest.raises(UpdateError, match="theta_u"):
        compose(theta, user=np.float32([1, 2, np.inf]))
    with pytest.raises(UpdateError, match="range"):
        compose(theta, regional=np.full(3, 3e38, np.float32), alpha_region=2.0)


@given(flat, flat, st.floats(0.1, 2))
def test_sgd_update_can_be_derived(theta, update, eta):
    moved, state = Sgd(eta).step(theta, update, ServerState())
    assert state.step == 1
    back = derive_mean_update(theta, moved, eta=eta)
    scale = np.abs(theta).max() + np.abs(update).max()
    np.testing.assert_allclose(back, update, atol=2e-6 * (scale + 1) / min(eta, 1.0))


def test_momentum_and_adam_against_their_formulas():
    rng = np.random.default_rng(2)
    start = rng.standard_normal(5).astype(np.float32)
    updates = rng.standard_normal((4, 5)).astype(np.float32)
    x, m, theta, state = start.astype(float), np.zeros(5), start, ServerState()
    for g in updates:
        m = 0.8 * m + g
        x = x - 0.5 * m
        theta, state = Momentum(0.5, 0.8).step(theta, g, state)
    np.testing.assert_allclose(theta, x, atol=1e-6)
    x, m, v, theta, state = start.astype(float), np.zeros(5), np.zeros(5), start, ServerState()
    for t, g in enumerate(updates, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g.astype(float) ** 2
        x = x - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3)
        theta, state = Adam(0.1).step(theta, g, state)
    np.testing.assert_allclose(theta, x, atol=1e-6)
    np.testing.assert_array_equal(start, start.copy())
    assert state.step == 4
    with pytest.raises(StateError, match="another model"):
        Adam(0.1).step(np.ones(3, np.float32), np.ones(3, np.float32), state)


@given(st.lists(amount, min_size=1, max_size=80))
def test_user_calibration_is_a_bounded_running_median(conflicts):
    calibration = UserCalibration()
    for d in conflicts:
        calibration = calibration.observe(d)
    assert calibration.mu == pytest.approx(float(np.median(conflicts[-WINDOW:])))
    assert UserCalibration.from_dict(calibration.to_dict()) == calibration


def test_user_strength_starts_in_the_middle_and_grows_with_conflict():
    near, far, region = (np.full(4, x, np.float32) for x in (1.0, 9.0, 0.0))
    alpha, calibration = user_strength(near, region, calibration=UserCalibration())
    assert alpha == 0.75
    alpha, _ = user_strength(far, region, calibration=calibration, scale="scale-free")
    assert alpha > 0.75
    with pytest.raises(StateError):
        _ = UserCalibration().mu
    with pytest.raises(StateError):
        UserCalibration.from_dict({"conflicts": ["a"]})
