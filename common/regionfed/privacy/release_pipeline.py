"""A region's release from raw updates, as a simulation or an audit drives it in one process.

The same encoding and the same noise as the tiers use; only the masks are left out, which cancel
exactly in the sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from regionfed.errors import PrivacyError
from regionfed.privacy.mechanisms import Vector, integer_gaussian, integer_noise, noised_mean
from regionfed.privacy.modes import Mode
from regionfed.privacy.skellam import noise_share, share_variance
from regionfed.secagg.config import SCALE_LORA, Block, SecAggConfig
from regionfed.secagg.encoding import encode, signed_sum

_BLOCK = "update"


def release_pipeline(
    mode: Mode,
    *,
    dimension: int,
    noise_multiplier: float,
    clip_norm: float,
    expected_cohort: int,
    scale: float = SCALE_LORA,
    correlated: Callable[[], Vector] | None = None,
) -> Callable[[npt.NDArray[np.float32]], Vector]:
    """A function from updates (clients, d) to the noised mean (d,) in a per-client mode.

    `correlated` gives the noise of the next round in mode client-mf (`CorrelatedNoise.next`).
    Raises PrivacyError for the modes that have no client-level release, ValueOutOfRange when the
    scale is too fine for the cohort.
    """
    if not mode.per_client:
        raise PrivacyError(
            f"mode {mode} has no client-level release; use client, client-mf or client-strict"
        )
    if (mode is Mode.CLIENT_MF) != (correlated is not None):
        raise PrivacyError("correlated noise belongs to mode client-mf and to no other")
    strict = mode is Mode.CLIENT_STRICT
    variance = share_variance(
        noise_multiplier=noise_multiplier,
        clip_norm=clip_norm,
        scale=scale,
        minimum_honest=expected_cohort,
    )
    block = Block(
        name=_BLOCK,
        length=dimension,
        clip=clip_norm,
        scale=scale,
        noise_multiplier=0.0 if strict else noise_multiplier,
        device_noise_std=variance**0.5 if strict else 0.0,
    )
    config = SecAggConfig(blocks=(block,), directory=bytes(32))
    config.check_cohort(expected_cohort)

    def release(updates: npt.NDArray[np.float32]) -> Vector:
        total = np.zeros(dimension, dtype=np.uint32)
        for update in updates:
            shares = {_BLOCK: noise_share(dimension, variance=variance)} if strict else None
            total += encode({_BLOCK: update}, config, device_noise=shares)
        steps = signed_sum(total, config, clients=len(updates))[_BLOCK]
        noise = None
        if correlated is not None:
            noise = integer_noise(correlated(), scale=scale)
        elif not strict:
            noise = integer_gaussian(
                dimension, noise_multiplier=noise_multiplier, clip_norm=clip_norm, scale=scale
            )
        return noised_mean(steps, noise, scale=scale, expected_cohort=expected_cohort)

    return release
