"""The oracles of algorithm section 5, to their stated precision."""

import math

import numpy as np
import pytest

from regionfed.method.conflict import calibrate_mu, conflict, label_divergence
from regionfed.method.rho import RhoSearch, Verdict
from regionfed.method.strategies import Grad, RegionView
from regionfed.method.strength import strength
from regionfed.method.vectors import clip_to_norm, weighted_mean


def vec(*entries):
    return np.asarray(entries, dtype=np.float32)


def test_strength():
    assert strength(2.0, mu=2.0) == 0.75
    assert strength(math.inf, mu=2.0) == 1.0
    assert strength(-math.inf, mu=2.0) == 0.5
    assert strength(1e6, mu=2.0) == pytest.approx(1.0, abs=1e-12)
    assert strength(3.7, mu=2.0, tau=1.7) == pytest.approx(0.8655292893, abs=1e-10)


def test_three_regions():
    updates = [vec(1, 0), vec(0, 1), vec(1, 1)]
    g = weighted_mean(updates)
    np.testing.assert_allclose(g, [2 / 3, 2 / 3], atol=1e-7)
    d = [conflict(g_r, g) for g_r in updates]
    assert d == pytest.approx([0.7453559925, 0.7453559925, 0.4714045208], abs=1e-7)
    mu = calibrate_mu(d)
    assert mu == pytest.approx(0.7453559925, abs=1e-7)
    # Ten digits hold for exact distances; float32 updates carry seven.
    exact = [math.sqrt(5) / 3, math.sqrt(5) / 3, math.sqrt(2) / 3]
    mu = calibrate_mu(exact)
    assert mu == pytest.approx(0.7453559925, abs=1e-10)
    alphas = [strength(value, mu=mu) for value in exact]
    assert alphas == pytest.approx([0.75, 0.75, 0.7159686364], abs=1e-10)
    directions = [Grad().displacement(RegionView(g_r, g)) for g_r in updates]
    np.testing.assert_allclose(
        directions, [[-1 / 3, 2 / 3], [2 / 3, -1 / 3], [-1 / 3, -1 / 3]], atol=1e-7
    )


def test_mu_of_an_even_count_is_the_mean_of_the_middle_two():
    assert calibrate_mu([4.0, 1.0, 2.0, 10.0]) == 3.0


def test_clip():
    np.testing.assert_allclose(clip_to_norm(vec(3, 4), 1.0), [0.6, 0.8], atol=1e-7)
    small = vec(0.3, 0.4)
    assert clip_to_norm(small, 1.0) is small


@pytest.mark.parametrize("points", [1, 3, 5, 39])
@pytest.mark.parametrize(
    ("loss", "status"),
    [
        (lambda rho: (rho - 0.3) ** 2, Verdict.INTERIOR),
        (lambda rho: rho, Verdict.LOWER),
        (lambda rho: -rho, Verdict.UPPER),
    ],
)
def test_rho(points, loss, status):
    search = RhoSearch(lo=0.0, hi=1.0, tol=0.05, points=points)
    while not search.done:
        search.update({rho: loss(rho) for rho in search.pending()})
    result = search.result()
    assert result.status is status
    if status is Verdict.INTERIOR:
        assert abs(result.rho - 0.3) <= 0.025
        assert result.served == result.rho
    elif status is Verdict.LOWER:
        assert result.served == 0.0
    else:
        assert result.served == 1.0


def test_divergence():
    found = label_divergence([1, 1], [1, 3], smoothing=0.0)
    assert found == pytest.approx(0.1438410362, abs=1e-10)
    assert label_divergence([0.5, 0.5], [0.25, 0.75], smoothing=0.0) == pytest.approx(found)
