"""Distributed noise for `client-strict`: each client adds a Skellam share before masking.

Skellam variables add: n shares of variance v sum to a Skellam of variance n*v exactly. Each share
has variance (sigma*s*C)^2 / n_min, so any n >= n_min honest survivors give at least the noise that
was promised. n_min must count HONEST survivors: clients that collude with the coordinator can
subtract their own shares. With n survivors the sum carries n/n_min times the needed variance;
the account never takes credit for that surplus.

Accounting bound (Agarwal, Kairouz and Liu 2021, theorem 3.5), for integer orders a >= 2, L2
sensitivity D2, L1 sensitivity D1 and total variance m:

    RDP(a) <= a*D2^2/(2m) + ((2a - 1)*D2^2 + 6*D1)/(4m^2)
           <= a*D2^2/(2m) * (1 + k),   k = (1 + 1.5*D1/D2^2)/m,   D1 <= min(sqrt(d)*D2, D2^2)

So the release is charged as a Gaussian of multiplier sqrt(m)/(D2*sqrt(1 + k)) under RDP with
integer orders (`gdp.rdp_to_epsilon`), which is looser than PLD and is a proof for Skellam.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from regionfed.errors import PrivacyError
from regionfed.privacy.mechanisms import (
    check_clip_norm,
    check_noise_multiplier,
    rounded_clip_norm,
)
from regionfed.privacy.noise_source import NoiseSource


def share_variance(
    *, noise_multiplier: float, clip_norm: float, scale: float, minimum_honest: int
) -> float:
    """The variance of one client's share, in squared integer units.

    `minimum_honest` is the smallest number of honest clients whose shares reach the sum.
    Raises PrivacyError when it is below 1.
    """
    if minimum_honest < 1:
        raise PrivacyError(
            f"client-strict needs at least 1 honest survivor, got {minimum_honest}; "
            "set the secure aggregation threshold above the number of clients that may collude"
        )
    std = check_noise_multiplier(noise_multiplier) * check_clip_norm(clip_norm) * scale
    return std * std / minimum_honest


def noise_share(
    dimension: int, *, variance: float, source: NoiseSource | None = None
) -> npt.NDArray[np.int64]:
    """One client's Skellam share, int64, shape (dimension,); add it modulo 2^32 before masking."""
    if not (variance > 0.0 and math.isfinite(variance)):
        raise PrivacyError(f"the variance of a noise share must be positive, got {variance}")
    return (source or NoiseSource()).skellam(dimension, variance=variance)


def skellam_charged_multiplier(
    noise_multiplier: float, *, clip_norm: float, dimension: int, scale: float
) -> float:
    """The Gaussian multiplier whose RDP bounds that of the summed shares (module docstring).

    Includes the sensitivity that stochastic rounding adds.
    """
    total = (check_noise_multiplier(noise_multiplier) * clip_norm * scale) ** 2
    sensitivity = rounded_clip_norm(clip_norm, dimension=dimension, scale=scale) * scale
    l1 = min(math.sqrt(dimension) * sensitivity, sensitivity**2)
    excess = (1.0 + 1.5 * l1 / sensitivity**2) / total
    return math.sqrt(total / (1.0 + excess)) / sensitivity
