"""The epsilon that the RegionFed paper prints, kept apart because no accountant gives it.

It is the leading-order form `q*sqrt(T*ln(1/delta))/sigma` with its constant set to 1 (privacy
section 1). Nothing in the stack bounds anything with it; it is shown only beside a true figure.
"""

from __future__ import annotations

import math

from regionfed.privacy.gdp import check_delta
from regionfed.privacy.mechanisms import check_noise_multiplier

PAPER_LABEL = "the paper's printed formula q*sqrt(T*ln(1/delta))/sigma: not a valid epsilon"


def paper_formula(
    *, noise_multiplier: float, sample_rate: float, rounds: int, delta: float
) -> float:
    """q*sqrt(T*ln(1/delta))/sigma; label it with `PAPER_LABEL` wherever it is shown."""
    check_noise_multiplier(noise_multiplier)
    return sample_rate * math.sqrt(rounds * math.log(1.0 / check_delta(delta))) / noise_multiplier
