"""The clipping norm follows a quantile of the update norms (Andrew et al. 2021).

Each client reports one bit, 'my norm is at most C', as -1/2 or +1/2, so its sensitivity is 1/2.
The noised share of ones moves C geometrically towards the wanted quantile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regionfed.errors import PrivacyError
from regionfed.privacy.mechanisms import check_clip_norm, check_noise_multiplier

MINIMUM_COHORT = 100
CLIP_BIT_SENSITIVITY = 0.5


def clip_bit(norm: float, clip_norm: float) -> float:
    """+1/2 when `norm` is at most `clip_norm`, else -1/2; what a client sends."""
    return 0.5 if norm <= clip_norm else -0.5


def clip_bit_std(*, training_multiplier: float) -> float:
    """sigma_b = 2z: the noise on the sum of bits that goes with training multiplier z."""
    return 2.0 * check_noise_multiplier(training_multiplier)


def clip_bit_multiplier(std: float) -> float:
    """The noise multiplier to account for noise of standard deviation `std` on the sum of bits."""
    return check_noise_multiplier(std / CLIP_BIT_SENSITIVITY)


@dataclass(frozen=True)
class ClipDecision:
    """The clipping norm of the next round, whether it may still adapt, and why."""

    clip_norm: float
    adaptive: bool
    reason: str


def next_clip_norm(
    clip_norm: float,
    *,
    noised_bit_sum: float,
    expected_cohort: int,
    quantile: float = 0.5,
    learning_rate: float = 0.2,
) -> ClipDecision:
    """C for the next round from the noised sum of clip bits of this one.

    Below 100 clients per round the noise on the bit drowns it, so C stays fixed and the reason
    says so. Raises PrivacyError for a quantile outside (0, 1) or a bad cohort.
    """
    check_clip_norm(clip_norm)
    if not 0.0 < quantile < 1.0:
        raise PrivacyError(f"clip quantile = {quantile} must lie strictly between 0 and 1")
    if expected_cohort < MINIMUM_COHORT:
        return ClipDecision(
            clip_norm=clip_norm,
            adaptive=False,
            reason=(
                f"{expected_cohort} clients per round are fewer than {MINIMUM_COHORT}: "
                f"the clipping norm stays at {clip_norm:g}"
            ),
        )
    fraction = min(1.0, max(0.0, noised_bit_sum / expected_cohort + 0.5))
    moved = clip_norm * math.exp(-learning_rate * (fraction - quantile))
    return ClipDecision(
        clip_norm=moved,
        adaptive=True,
        reason=f"{fraction:.0%} of the updates were within {clip_norm:g}, wanted {quantile:.0%}",
    )
