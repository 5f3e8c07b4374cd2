"""How strongly a region or a user is personalised: the sigmoid weight alpha (section 3.5)."""

from __future__ import annotations

import math
from typing import Literal

from regionfed.errors import ConfigError

Scale = Literal["paper", "scale-free"]


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)) without overflow at either end."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    small = math.exp(x)
    return small / (1.0 + small)


def strength(
    d: float, *, mu: float, tau: float = 1.0, alpha_min: float = 0.5, scale: Scale = "paper"
) -> float:
    """alpha = alpha_min + (1 - alpha_min)*sigmoid((d - mu) / (tau*s)), in [alpha_min, 1].

    `d` is the conflict and `mu` its calibration, both in update units. s = 1 is the paper's form,
    which separates regions only when conflicts are of order 1; `scale-free` takes s = mu, so that
    multiplying every update by a constant changes nothing (algorithm section 3.5). With mu = 0
    the scale-free form takes its limit: the middle at d = 0, 1 above.

    Raises `ConfigError` for NaN, tau <= 0, alpha_min outside [0, 1], or mu that is not a finite
    number >= 0.
    """
    if math.isnan(d):
        raise ConfigError("alpha of a conflict that is NaN; check the updates it came from")
    if not (math.isfinite(mu) and mu >= 0):
        raise ConfigError(f"mu = {mu}: must be finite and >= 0; calibrate it on round 1")
    if not tau > 0 or not 0 <= alpha_min <= 1:
        raise ConfigError(f"tau = {tau} must be > 0 and alpha_min = {alpha_min} within [0, 1]")
    if scale not in ("paper", "scale-free"):
        raise ConfigError(f"scale = {scale!r}: allowed are 'paper' and 'scale-free'")
    offset = d - mu
    spread = tau if scale == "paper" else tau * mu
    if offset == 0:
        return alpha_min + (1 - alpha_min) * 0.5
    exponent = offset / spread if spread > 0 else math.copysign(math.inf, offset)
    return alpha_min + (1 - alpha_min) * sigmoid(exponent)
