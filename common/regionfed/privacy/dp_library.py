"""The one place that calls dp_accounting, imported only when an epsilon is asked for."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from regionfed.errors import PrivacyError

# (noise multiplier, Poisson sampling rate, how often)
_Step = tuple[float, float, int]


def _library() -> Any:
    # absl tells everybody about its defaults for orders; the caller did not choose any.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError as error:
        raise PrivacyError(
            f"computing an epsilon needs the `privacy` extra ({error}); "
            "install it with: pip install 'regionfed[privacy]'"
        ) from error
    return dp_accounting


def _event(library: Any, steps: Sequence[_Step]) -> Any:
    parts = []
    for multiplier, rate, count in steps:
        release = library.GaussianDpEvent(multiplier)
        if rate < 1.0:
            release = library.PoissonSampledDpEvent(rate, release)
        parts.append(library.SelfComposedDpEvent(release, count))
    return library.ComposedDpEvent(parts)


def _trivial(steps: Sequence[_Step]) -> float | None:
    if not steps:
        return 0.0
    if any(multiplier <= 0.0 for multiplier, _, _ in steps):
        return math.inf
    return None


def pld_epsilon(steps: Sequence[_Step], *, delta: float) -> float:
    """epsilon of the composed steps by privacy loss distributions, add/remove neighbours."""
    trivial = _trivial(steps)
    if trivial is not None:
        return trivial
    library = _library()
    mu = math.sqrt(math.fsum(count / multiplier**2 for multiplier, _, count in steps))
    # The grid is pessimistic at any width. Losses spread as mu and reach to mu^2; a grid that
    # grows with them changes epsilon by less than 1e-5 of itself.
    interval = 1e-4 * max(1.0, mu / 2.0, mu * mu / 128.0)
    accountant = library.pld.PLDAccountant(value_discretization_interval=interval)
    accountant.compose(_event(library, steps))
    return float(accountant.get_epsilon(delta))


def rdp_epsilon(steps: Sequence[_Step], *, delta: float) -> float:
    """epsilon of the composed steps by Renyi DP, add/remove neighbours; looser than PLD."""
    trivial = _trivial(steps)
    if trivial is not None:
        return trivial
    library = _library()
    accountant = library.rdp.RdpAccountant()
    accountant.compose(_event(library, steps))
    return float(accountant.get_epsilon(delta))


def sampled_multiplier(
    *, epsilon: float, delta: float, rate: float, count: int, high: float
) -> float:
    """The smallest multiplier of `count` Poisson-sampled releases with PLD epsilon <= `epsilon`.

    `high` is a multiplier known to suffice.
    """
    _library()
    from scipy.optimize import brentq

    def excess(multiplier: float) -> float:
        return pld_epsilon([(multiplier, rate, count)], delta=delta) - epsilon

    # RDP is looser and cheaper: its answer suffices and lies close above the one that is sought.
    bottom = 0.0
    while high - bottom > 0.01 * high:
        middle = 0.5 * (bottom + high)
        if rdp_epsilon([(middle, rate, count)], delta=delta) <= epsilon:
            high = middle
        else:
            bottom = middle
    low = high
    while excess(low) <= 0.0:
        low, high = low / 1.15, low
    tolerance = 2e-5 * high
    # The root is known to within the tolerance; its upper side is within the budget.
    return float(brentq(excess, low, high, xtol=tolerance)) + tolerance
