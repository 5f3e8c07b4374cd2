"""Clipping, noise, sensitivities, shares and adaptive clipping."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from regionfed.errors import PrivacyError, UpdateError
from regionfed.privacy import mechanisms as m
from regionfed.privacy.adaptive_clip import (
    clip_bit,
    clip_bit_multiplier,
    clip_bit_std,
    next_clip_norm,
)
from regionfed.privacy.noise_source import NoiseSource
from regionfed.privacy.skellam import noise_share, share_variance, skellam_charged_multiplier


def vector(*values: float) -> m.Vector:
    return np.array(values, dtype=np.float32)


def test_clip_examples() -> None:
    short = vector(0.3, 0.4)
    kept = m.clip(short, 1.0)
    assert kept.vector is short
    assert not kept.was_clipped
    long = m.clip(vector(3, 4), 1.0)
    np.testing.assert_allclose(long.vector, [0.6, 0.8], rtol=1e-6)
    assert long.norm == 5.0
    assert long.was_clipped


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    st.floats(1e-3, 1e3),
)
def test_the_clip_bound_is_exact(values: list[float], clip_norm: float) -> None:
    clipped = m.clip(vector(*values), clip_norm).vector
    assert float(np.linalg.norm(clipped.astype(np.float64))) <= clip_norm
    assert clipped.dtype == np.float32


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_updates_are_refused(bad: float) -> None:
    with pytest.raises(UpdateError, match="NaN or infinite"):
        m.clip(vector(1.0, bad), 1.0)


def test_sensitivities_are_exact_and_reached() -> None:
    assert m.sensitivity(m.Query.SUM, clip_norm=1.5) == 1.5
    assert m.sensitivity(m.Query.CLIP_OF_MEAN, clip_norm=1.5) == 3.0
    assert m.sensitivity(m.Query.MEAN_OVER_ACTUAL_COUNT, clip_norm=1.0, cohort=9) == 0.2
    with pytest.raises(PrivacyError, match="count n >= 1"):
        m.sensitivity(m.Query.MEAN_OVER_ACTUAL_COUNT, clip_norm=1.0)
    # Worst cases: a huge client turns a clipped mean around; one opposed client moves the mean.
    mean_of_nine = m.clip(vector(1, 0), 1.0).vector
    mean_of_ten = m.clip((9 * vector(1, 0) + vector(-1e9, 0)) / 10, 1.0).vector
    assert np.linalg.norm(mean_of_nine - mean_of_ten) == pytest.approx(2.0)
    moved = (9 * vector(1, 0) + vector(-1, 0)) / 10 - vector(1, 0)
    assert np.linalg.norm(moved) == pytest.approx(0.2)


def test_gaussian_noise_has_the_promised_spread() -> None:
    noised = m.add_gaussian(
        np.full(200_000, 7.0, dtype=np.float32),
        noise_multiplier=4.0,
        clip_norm=0.5,
        source=NoiseSource(bytes(32)),
    )
    assert noised.dtype == np.float32
    assert noised.mean() == pytest.approx(7.0, abs=0.03)
    assert noised.std() == pytest.approx(2.0, rel=0.01)
    assert stats.kstest((noised - 7.0) / 2.0, "norm").pvalue > 1e-3


def test_noise_is_fresh_each_time() -> None:
    first, second = (
        m.integer_gaussian(50_000, noise_multiplier=1, clip_norm=1, scale=2**16) for _ in range(2)
    )
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    repeated = [NoiseSource(b"k" * 32).normal(5) for _ in range(2)]
    np.testing.assert_array_equal(*repeated)
    with pytest.raises(ValueError, match="32 bytes"):
        NoiseSource(b"short")


def test_integer_noise_and_release_of_a_modular_sum() -> None:
    noise = m.integer_gaussian(
        100_000, noise_multiplier=4, clip_norm=1, scale=2**20, source=NoiseSource(bytes(32))
    )
    assert noise.dtype == np.int64
    assert noise.std() == pytest.approx(4 * 2**20, rel=0.02)
    steps = np.array([-5, 3, 2**30], dtype=np.int32)
    released = m.noised_mean(steps, noise[:3], scale=2.0, expected_cohort=10)
    np.testing.assert_allclose(released, (steps + noise[:3]) / 20.0, rtol=1e-6)
    np.testing.assert_allclose(
        m.noised_mean(steps, None, scale=1.0, expected_cohort=1), steps, rtol=1e-6
    )
    with pytest.raises(UpdateError, match="cannot take noise"):
        m.noised_mean(steps, noise[:2], scale=2.0, expected_cohort=10)
    np.testing.assert_array_equal(m.integer_noise(vector(0.26, -0.26), scale=10.0), [3, -3])


def test_division_is_by_the_public_cohort() -> None:
    np.testing.assert_array_equal(m.divide_by_cohort(vector(10, 20), 10), vector(1, 2))
    with pytest.raises(PrivacyError, match="cohort"):
        m.divide_by_cohort(vector(1), 0)


def test_rounding_is_charged() -> None:
    norm = m.rounded_clip_norm(1.0, dimension=295_000, scale=2**16)
    assert norm == pytest.approx(1.0 + math.sqrt(295_000) / 2**16)
    charged = m.charged_multiplier(4.0, clip_norm=1.0, dimension=295_000, scale=2**16)
    assert charged == pytest.approx(4.0 / norm)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan])
def test_no_noise_is_not_a_multiplier(sigma: float) -> None:
    with pytest.raises(PrivacyError, match="mode 'off'"):
        m.add_gaussian(vector(1), noise_multiplier=sigma, clip_norm=1.0)


def test_skellam_shares_sum_to_the_promised_variance() -> None:
    variance = share_variance(noise_multiplier=4, clip_norm=1, scale=2**10, minimum_honest=8)
    total = sum(noise_share(50_000, variance=variance) for _ in range(8))
    assert np.std(total) == pytest.approx(4 * 2**10, rel=0.02)
    assert np.mean(total) == pytest.approx(0.0, abs=6 * 4 * 2**10 / math.sqrt(50_000))
    with pytest.raises(PrivacyError, match="honest survivor"):
        share_variance(noise_multiplier=4, clip_norm=1, scale=2**10, minimum_honest=0)
    with pytest.raises(PrivacyError, match="variance"):
        noise_share(3, variance=0.0)


@pytest.mark.parametrize(("variance", "shift"), [(8.0, 2), (20.0, 2), (60.0, 3)])
def test_the_skellam_bound_holds_on_exact_distributions(variance: float, shift: int) -> None:
    # In one dimension at scale 1 rounding adds 1, so C = shift - 1 has the sensitivity `shift`.
    clip_norm = shift - 1.0
    charged = skellam_charged_multiplier(
        math.sqrt(variance) / clip_norm, clip_norm=clip_norm, dimension=1, scale=1.0
    )
    support = np.arange(-400, 401)
    here = stats.skellam.logpmf(support, variance / 2, variance / 2)
    there = stats.skellam.logpmf(support - shift, variance / 2, variance / 2)
    keep = np.isfinite(here) & np.isfinite(there)
    for order in (2, 3, 5):
        terms = order * there[keep] - (order - 1) * here[keep]
        peak = terms.max()
        divergence = (peak + math.log(np.exp(terms - peak).sum())) / (order - 1)
        assert divergence <= order / (2 * charged**2)
        # The test would notice a bound that is merely large.
        assert divergence > 0.8 * order * shift**2 / (2 * variance)


def test_skellam_charge_is_close_to_gaussian_at_real_scales() -> None:
    gaussian = m.charged_multiplier(4.0, clip_norm=1.0, dimension=295_000, scale=2**16)
    strict = skellam_charged_multiplier(4.0, clip_norm=1.0, dimension=295_000, scale=2**16)
    assert strict < gaussian
    assert strict == pytest.approx(gaussian, rel=1e-6)


def test_clip_bits() -> None:
    assert (clip_bit(0.9, 1.0), clip_bit(1.1, 1.0)) == (0.5, -0.5)
    assert clip_bit_std(training_multiplier=4.0) == 8.0
    assert clip_bit_multiplier(8.0) == 16.0


def test_adaptive_clipping_follows_the_quantile_from_100_clients() -> None:
    norms = np.linspace(0.1, 10.0, 400)
    clip_norm = 0.2
    for _ in range(150):
        bits = sum(clip_bit(norm, clip_norm) for norm in norms)
        clip_norm = next_clip_norm(clip_norm, noised_bit_sum=bits, expected_cohort=400).clip_norm
    assert clip_norm == pytest.approx(np.median(norms), rel=0.05)
    fixed = next_clip_norm(1.0, noised_bit_sum=40.0, expected_cohort=99)
    assert fixed.clip_norm == 1.0
    assert not fixed.adaptive
    assert "fewer than 100" in fixed.reason


def test_a_client_without_extras_can_import_what_it_needs() -> None:
    code = (
        "import sys\n"
        "for name in ('dp_accounting', 'scipy', 'opacus', 'torch'): sys.modules[name] = None\n"
        "import regionfed.privacy.mechanisms, regionfed.privacy.participation\n"
        "import regionfed.privacy.modes, regionfed.privacy.skellam, regionfed.privacy.sketch\n"
        "import regionfed.privacy.ledger_sqlite\n"
        "from regionfed.errors import PrivacyError\n"
        "from regionfed.privacy.accountant import epsilon\n"
        "try: epsilon(noise_multiplier=4, rounds=1, delta=1e-5)\n"
        "except PrivacyError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'regionfed[privacy]'" in done.stdout
