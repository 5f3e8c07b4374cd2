import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regionfed.errors import ConfigError, StateError, UpdateError
from regionfed.method.rho import RhoSearch, Verdict, check_fixed, exchanges_needed


def run(loss, **options):
    search = RhoSearch(**options)
    asked = []
    while not search.done:
        asked.append(search.pending())
        search.update({rho: loss(rho) for rho in search.pending()})
    return search.result(), asked


@given(
    st.floats(0, 1), st.sampled_from([1, 3, 4, 5, 7, 39]), st.floats(0.001, 0.2), st.floats(0.5, 4)
)
def test_search_finds_the_valley_and_never_serves_a_loss(target, points, tol, power):
    def loss(rho):
        return abs(rho - target) ** power

    result, asked = run(loss, tol=tol, points=points)
    assert abs(result.rho - target) <= tol + 1e-9
    assert result.served in (0.0, result.rho)
    assert loss(result.served) <= loss(0.0)
    assert result.exchanges <= exchanges_needed(lo=0, hi=1, tol=tol, points=points)
    assert len(asked) == result.exchanges
    flat = [rho for batch in asked for rho in batch]
    assert len(flat) == len(set(flat)) == result.evaluations
    assert 0.0 in asked[0]


@given(st.dictionaries(st.integers(0, 60), st.floats(allow_nan=True), min_size=61, max_size=61))
def test_any_losses_end_with_a_served_rho_that_is_no_worse(table):
    def loss(rho):
        return table[round(rho * 60)]

    for points in (1, 5):
        result, _ = run(loss, points=points)
        zero = loss(0.0) if math.isfinite(loss(0.0)) else math.inf
        served = loss(result.served)
        assert result.served == 0.0 or served < zero
        assert result.explain()


def test_golden_section_asks_for_one_point_after_the_first_exchange():
    result, asked = run(lambda rho: rho, points=1)
    assert [len(batch) for batch in asked] == [4, 1, 1, 1, 1, 1, 1]
    assert result.bracket == pytest.approx((0.0, 0.618034**7), abs=1e-6)
    assert "0.0344" in result.explain()
    assert "not an optimum" in result.explain()
    assert "rho = 0 " in result.explain()


def test_points_per_exchange():
    assert exchanges_needed(lo=0, hi=1, tol=0.05, points=1) == 7
    assert exchanges_needed(lo=0, hi=1, tol=0.05, points=5) == 3
    assert exchanges_needed(lo=0, hi=1, tol=0.05, points=39) == 1
    result, asked = run(lambda rho: (rho - 0.4) ** 2, points=5)
    assert result.bracket[1] - result.bracket[0] == pytest.approx((2 / 6) ** 3)
    # The middle of each nested grid is known from the one before.
    assert [len(batch) for batch in asked] == [7, 4, 4]


def test_a_gain_below_the_resolution_is_served_and_called_lower():
    result, _ = run(lambda rho: (rho - 0.01) ** 2, points=39)
    assert result.status is Verdict.LOWER
    result, _ = run(lambda rho: (rho - 0.02) ** 2, points=39)
    assert (result.status, result.served) == (Verdict.LOWER, 0.025)


def test_a_valley_that_does_not_beat_none_is_rejected():
    result, _ = run(lambda rho: 1 + (rho - 0.5) ** 2 if rho else 0.5, points=1)
    assert (result.status, result.served) == (Verdict.REJECTED, 0.0)
    assert "nothing beats" in result.explain()


def test_the_best_outside_golden_sections_valley_is_served_with_its_own_bracket():
    def loss(rho):
        return -1.0 if rho == 1.0 else (rho - 0.5) ** 2

    result, _ = run(loss, points=1)
    assert (result.served, result.status) == (1.0, Verdict.UPPER)
    assert result.bracket[0] < result.bracket[1] == 1.0


def test_losses_that_are_not_finite():
    result, _ = run(lambda rho: math.nan if rho else 1.0)
    assert (result.status, result.served, result.loss) == (Verdict.REJECTED, 0.0, math.inf)
    assert "finite" in result.explain()
    result, _ = run(lambda rho: math.inf)
    assert (result.status, result.served) == (Verdict.REJECTED, 0.0)
    # Where only large steps diverge, the search goes on below them.
    result, _ = run(lambda rho: (rho - 0.2) ** 2 if rho < 0.5 else math.nan)
    assert result.status is Verdict.INTERIOR
    assert abs(result.served - 0.2) <= 0.025


@pytest.mark.parametrize("points", [1, 5])
def test_state_survives_json_between_exchanges(points):
    def loss(rho):
        return (rho - 0.3) ** 2 if rho < 0.9 else math.nan

    search = RhoSearch(points=points)
    while not search.done:
        search.update({rho: loss(rho) for rho in search.pending()})
        text = json.dumps(search.to_dict(), allow_nan=False)
        search = RhoSearch.from_dict(json.loads(text))
    assert search.result() == run(loss, points=points)[0]


def test_errors():
    search = RhoSearch()
    with pytest.raises(StateError, match="not done"):
        search.result()
    with pytest.raises(UpdateError, match="no loss"):
        search.update({0.0: 1.0})
    with pytest.raises(StateError, match="damaged"):
        RhoSearch.from_dict({**search.to_dict(), "losses": [[0.1]]})
    for wrong in ({"lo": 1.0}, {"tol": 0.0}, {"tol": 2.0}, {"points": 2}, {"lo": -1.0}):
        with pytest.raises(ConfigError):
            RhoSearch(**wrong)


def test_fixed_displacement_is_checked_against_none():
    good = check_fixed({0.0: 2.0, 1.0: 1.0})
    assert (good.served, good.status, good.helped) == (1.0, Verdict.FIXED, True)
    for bad_loss in (2.0, 3.0, math.nan):
        bad = check_fixed({0.0: 2.0, 1.0: bad_loss})
        assert (bad.served, bad.status) == (0.0, Verdict.REJECTED)
    with pytest.raises(UpdateError):
        check_fixed({1.0: 1.0})
