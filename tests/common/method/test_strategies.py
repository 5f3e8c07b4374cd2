import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regionfed.errors import ConfigError, UpdateError
from regionfed.method.config import ResidualConfig
from regionfed.method.rho import exchanges_needed
from regionfed.method.strategies import (
    STRATEGIES,
    ClientWork,
    Grad,
    Interp,
    Meta,
    NoPersonalisation,
    RegionView,
    Residual,
    exchanges,
)

flat = hnp.arrays(np.float32, 5, elements=st.floats(-10, 10, width=32))


@pytest.mark.parametrize(
    ("name", "count"), [("none", 2), ("residual", 2), ("grad", 2), ("interp", 3), ("meta", 3)]
)
def test_exchanges_when_the_search_fits_in_one(name, count):
    search = exchanges_needed(lo=0, hi=1, tol=0.05, points=39)
    needs = STRATEGIES[name]().needs
    assert exchanges(needs, search_exchanges=search) == count
    assert exchanges(needs, personalised=False) == 2


def test_a_longer_search_adds_its_exchanges():
    search = exchanges_needed(lo=0, hi=1, tol=0.05, points=5)
    assert exchanges(Grad().needs, search_exchanges=search) == 4
    assert exchanges(Meta().needs, search_exchanges=search) == 5
    assert exchanges(Residual().needs, search_exchanges=search) == 2
    with pytest.raises(ConfigError):
        exchanges(Grad().needs, search_exchanges=0)


def test_needs_say_what_the_driver_provides():
    needs = {name: make().needs for name, make in STRATEGIES.items()}
    assert {n for n, x in needs.items() if x.searches_rho} == {"grad", "interp", "meta"}
    assert {n for n, x in needs.items() if x.stateful} == {"residual"}
    assert {n for n, x in needs.items() if not x.personalises} == {"none"}
    assert Interp(epochs=3).needs.work is ClientWork.LOCAL_TRAINING
    assert Interp(epochs=3).needs.steps == 3
    assert Meta(steps=2).needs.work is ClientWork.LOOKAHEAD_GRADIENT
    assert Meta(steps=2).needs.steps == 2


@given(flat, flat, st.floats(0.1, 2))
def test_grad_with_rho_eta_serves_the_regions_own_step(g_r, g, eta):
    theta = np.ones(5)
    v = Grad().displacement(RegionView(g_r, g))
    own_step = theta - eta * g_r
    np.testing.assert_allclose((theta - eta * g) + eta * v, own_step, atol=1e-4)


@given(st.lists(flat, min_size=2, max_size=5))
def test_equal_weighted_corrections_cancel(updates):
    g = np.mean(np.stack(updates).astype(np.float64), axis=0).astype(np.float32)
    for strategy in (Grad(), Residual()):
        total = sum(strategy.displacement(RegionView(g_r, g)) for g_r in updates)
        np.testing.assert_allclose(total, 0, atol=1e-4)


@given(flat, flat, flat)
def test_answers_and_states(g_r, g, extra):
    view = RegionView(g_r, g, client_answer=extra, state=extra)
    np.testing.assert_array_equal(Interp().displacement(view), -extra)
    np.testing.assert_array_equal(Meta().displacement(view), -extra)
    assert NoPersonalisation().displacement(view) is None
    kept = extra.copy()
    moved = Residual(eta_res=0.5, decay=0.1).displacement(view)
    np.testing.assert_allclose(moved, 0.9 * extra - 0.5 * (g_r - g), atol=1e-5)
    np.testing.assert_array_equal(extra, kept)


def test_errors_name_what_is_missing():
    g = np.ones(3, np.float32)
    with pytest.raises(UpdateError, match="interp needs its clients' answer"):
        Interp().displacement(RegionView(g, g))
    with pytest.raises(UpdateError, match="theta_r"):
        Residual().displacement(RegionView(g, g, state=np.ones(4, np.float32)))
    with pytest.raises(UpdateError, match="regional update"):
        Grad().displacement(RegionView(np.ones(4, np.float32), g))
    for make in (
        lambda: Interp(epochs=0),
        lambda: Meta(steps=0),
        lambda: Residual(eta_res=0),
        lambda: Residual(decay=1),
    ):
        with pytest.raises(ConfigError):
            make()


def test_residual_step_goes_from_first_to_last_round_in_equal_steps():
    falling = ResidualConfig(learning_rate=0.5, final_learning_rate=0.1)
    assert [falling.at(number, 5) for number in range(1, 6)] == pytest.approx(
        [0.5, 0.4, 0.3, 0.2, 0.1]
    )
    assert falling.at(9, 5) == pytest.approx(0.1)
    assert falling.at(1, 1) == 0.5
    assert ResidualConfig(learning_rate=0.5).at(4, 5) == 0.5
