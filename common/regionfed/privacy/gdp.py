"""Exact conversions between mu-GDP, epsilon and RDP, in plain Python.

A Gaussian release with noise multiplier sigma is 1/sigma-GDP, and k of them are exactly
sqrt(k)/sigma-GDP (Dong, Roth and Su 2019). So what has been spent without amplification is one
number, `mu^2 = sum of 1/sigma^2`, and a budget check needs neither scipy nor dp_accounting.
"""

from __future__ import annotations

import math

from regionfed.errors import PrivacyError

_BISECTIONS = 200


def check_delta(delta: float) -> float:
    """Return `delta` if it is a probability strictly between 0 and 1.

    Raises PrivacyError otherwise.
    """
    if not 0.0 < delta < 1.0:
        raise PrivacyError(
            f"delta = {delta} is not a probability between 0 and 1 (both excluded); "
            "use a value well below 1/number of clients, for example 1e-5"
        )
    return delta


def _log_normal_cdf(x: float) -> float:
    if x > -30.0:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    # erfc underflows far in the tail; there the asymptotic series is exact to 1e-8.
    return (
        -0.5 * x * x
        - math.log(-x * math.sqrt(2.0 * math.pi))
        + math.log1p(-1.0 / x**2 + 3.0 / x**4 - 15.0 / x**6)
    )


def _log_delta(mu: float, epsilon: float) -> float:
    """log delta(epsilon) of a mu-GDP mechanism (Balle and Wang 2018, theorem 8)."""
    first = _log_normal_cdf(-epsilon / mu + mu / 2.0)
    second = epsilon + _log_normal_cdf(-epsilon / mu - mu / 2.0)
    if second >= first:
        return -math.inf
    return first + math.log1p(-math.exp(second - first))


def mu_to_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon such that mu-GDP implies (epsilon, delta)-DP.

    Tight, not a bound. `mu = 0` gives 0 and `mu = inf` gives inf.
    Raises PrivacyError for a negative mu or a delta outside (0, 1).
    """
    check_delta(delta)
    if not mu >= 0.0:
        raise PrivacyError(f"mu = {mu} must be >= 0")
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return math.inf
    log_delta = math.log(delta)
    if _log_delta(mu, 0.0) <= log_delta:
        return 0.0
    low, high = 0.0, 1.0
    while _log_delta(mu, high) > log_delta:
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if _log_delta(mu, middle) > log_delta:
            low = middle
        else:
            high = middle
    return high


def epsilon_to_mu(epsilon: float, delta: float) -> float:
    """The largest mu such that mu-GDP implies (epsilon, delta)-DP.

    Raises PrivacyError for a negative epsilon or a delta outside (0, 1).
    """
    check_delta(delta)
    if not epsilon >= 0.0:
        raise PrivacyError(f"epsilon = {epsilon} must be >= 0")
    if math.isinf(epsilon):
        return math.inf
    log_delta = math.log(delta)
    low, high = 0.0, 1.0
    while _log_delta(high, epsilon) < log_delta:
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if _log_delta(middle, epsilon) < log_delta:
            low = middle
        else:
            high = middle
    return low


def _integer_orders() -> list[int]:
    orders = list(range(2, 129))
    while orders[-1] < 1_000_000:
        orders.append(int(orders[-1] * 1.05) + 1)
    return orders


_ORDERS = _integer_orders()


def rdp_to_epsilon(mu: float, delta: float) -> float:
    """epsilon of a mechanism whose Renyi divergence of order a is at most a*mu^2/2.

    Only integer orders a >= 2 are used, because the Skellam bound holds for those alone. The
    conversion is that of Canonne, Kamath and Steinke 2020, proposition 12, minimised over a.
    """
    check_delta(delta)
    if math.isinf(mu):
        return math.inf
    if mu == 0.0:
        return 0.0
    best = min(
        0.5 * order * mu * mu + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1.0)
        for order in _ORDERS
    )
    return max(0.0, best)


def compose_multipliers(multipliers: list[float]) -> float:
    """The one noise multiplier equivalent to releasing once with each of `multipliers`.

    Returns inf for an empty list and 0 when any multiplier is 0 (no noise at all).
    """
    if any(value <= 0.0 for value in multipliers):
        return 0.0
    total = math.fsum(1.0 / value**2 for value in multipliers)
    return math.inf if total == 0.0 else 1.0 / math.sqrt(total)
