"""Clipping, Gaussian noise and sensitivities: the arithmetic of one private release.

Pure functions over flat float32 vectors; norms accumulate in float64. The unit of privacy is one
client's whole data, neighbours differ by adding or removing one client (privacy section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from regionfed.errors import PrivacyError, UpdateError
from regionfed.privacy.noise_source import NoiseSource

Vector = npt.NDArray[np.float32]

_CHUNK = 1 << 20


class Query(StrEnum):
    """What is released; it decides how much one client can move the result."""

    SUM = "sum"
    CLIP_OF_MEAN = "clip-of-mean"
    MEAN_OVER_ACTUAL_COUNT = "mean-over-actual-count"


@dataclass(frozen=True)
class Clipped:
    """A clipped vector, its norm before clipping, and whether it was shortened."""

    vector: Vector
    norm: float
    was_clipped: bool


def l2_norm(vector: Vector) -> float:
    """The L2 norm of a flat vector, accumulated in float64.

    Raises UpdateError when a value is NaN or infinite.
    """
    total = 0.0
    for start in range(0, vector.size, _CHUNK):
        chunk = vector[start : start + _CHUNK].astype(np.float64)
        total += float(np.dot(chunk, chunk))
    if not math.isfinite(total):
        raise UpdateError(
            "the update holds NaN or infinite values, so it cannot be clipped; "
            "lower the learning rate or check the client's data"
        )
    return math.sqrt(total)


def check_clip_norm(clip_norm: float) -> float:
    """Return `clip_norm` if it is positive and finite; raises PrivacyError otherwise."""
    if not (clip_norm > 0.0 and math.isfinite(clip_norm)):
        raise PrivacyError(f"clip norm C = {clip_norm} must be positive and finite")
    return clip_norm


def clip(update: Vector, clip_norm: float) -> Clipped:
    """Scale `update` (flat, shape (d,)) so that its L2 norm is at most `clip_norm`.

    The bound holds after rounding to float32: the factor is lowered by single float32 steps
    until it does. A vector inside the ball is returned as it is. Source: Abadi et al. 2016.
    Raises UpdateError for NaN or infinity, PrivacyError for a bad `clip_norm`.
    """
    check_clip_norm(clip_norm)
    norm = l2_norm(update)
    if norm <= clip_norm:
        return Clipped(vector=update, norm=norm, was_clipped=False)
    factor = np.float32(clip_norm / norm)
    vector = update * factor
    while l2_norm(vector) > clip_norm:
        factor = np.nextafter(factor, np.float32(0.0))
        vector = update * factor
    return Clipped(vector=vector, norm=norm, was_clipped=True)


def sensitivity(query: Query, *, clip_norm: float, cohort: int | None = None) -> float:
    """The exact L2 sensitivity of `query` to one client (privacy section 7).

    A sum of clipped updates: C. A regional mean clipped afterwards: 2C, whatever the cohort,
    because one client can turn the mean from one side of the ball to the other. A mean divided by
    the number that arrived: 2C/(n+1), which depends on a private count; `cohort` is that n.
    """
    check_clip_norm(clip_norm)
    if query is Query.SUM:
        return clip_norm
    if query is Query.CLIP_OF_MEAN:
        return 2.0 * clip_norm
    if cohort is None or cohort < 1:
        raise PrivacyError(
            f"the sensitivity of a mean over the actual count needs the count n >= 1, got {cohort}"
        )
    return 2.0 * clip_norm / (cohort + 1)


def check_noise_multiplier(noise_multiplier: float) -> float:
    """Return `noise_multiplier` if it is positive and finite; raises PrivacyError otherwise."""
    if not (noise_multiplier > 0.0 and math.isfinite(noise_multiplier)):
        raise PrivacyError(
            f"noise multiplier sigma = {noise_multiplier} must be positive and finite; "
            "to run without noise choose mode 'off', which says so in its report"
        )
    return noise_multiplier


def add_gaussian(
    vector: Vector, *, noise_multiplier: float, clip_norm: float, source: NoiseSource | None = None
) -> Vector:
    """`vector` plus independent N(0, (sigma*C)^2) noise per coordinate, float32, shape (d,).

    For sums held as floats (simulation without secure aggregation, or paper mode). The noise is
    drawn and added in float64 and only the result is rounded to float32.
    """
    std = check_noise_multiplier(noise_multiplier) * check_clip_norm(clip_norm)
    source = source or NoiseSource()
    out = np.empty(vector.size, dtype=np.float32)
    for start, normals in source.normal_chunks(vector.size):
        out[start : start + normals.size] = vector[start : start + normals.size] + std * normals
    return out


def integer_gaussian(
    dimension: int,
    *,
    noise_multiplier: float,
    clip_norm: float,
    scale: float,
    source: NoiseSource | None = None,
) -> npt.NDArray[np.int64]:
    """round(N(0, sigma^2 s^2 C^2)) per coordinate, int64, shape (dimension,), for secure sums.

    The sum is an integer, so sum + round(noise) equals round(sum + noise): post-processing of the
    exact Gaussian mechanism, accounted without any discretisation loss (privacy section 5).
    """
    std = check_noise_multiplier(noise_multiplier) * check_clip_norm(clip_norm) * scale
    source = source or NoiseSource()
    out = np.empty(dimension, dtype=np.int64)
    for start, normals in source.normal_chunks(dimension):
        out[start : start + normals.size] = np.rint(std * normals)
    return out


def noised_mean(
    steps: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    noise: npt.NDArray[np.int64] | None,
    *,
    scale: float,
    expected_cohort: int,
) -> Vector:
    """What a region releases: (integer sum + integer noise) / (scale * expected cohort), float32.

    `steps` is the signed integer sum of a block, shape (d,), `noise` comes from
    `integer_gaussian` or `integer_noise`; None where the clients' shares are in the sum already
    (client-strict). Raises UpdateError when the shapes differ.
    """
    if noise is not None and steps.shape != noise.shape:
        raise UpdateError(f"sum of shape {steps.shape} cannot take noise of shape {noise.shape}")
    _check_cohort(expected_cohort)
    out = np.empty(steps.size, dtype=np.float32)
    for start in range(0, steps.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        total = steps[part].astype(np.int64)
        if noise is not None:
            total += noise[part]
        out[part] = total / (scale * expected_cohort)
    return out


def integer_noise(noise: Vector, *, scale: float) -> npt.NDArray[np.int64]:
    """Real-valued noise (correlated noise, in the units of the update) on the integer grid."""
    out = np.empty(noise.size, dtype=np.int64)
    for start in range(0, noise.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        out[part] = np.rint(noise[part].astype(np.float64) * scale)
    return out


def divide_by_cohort(total: Vector, expected_cohort: int) -> Vector:
    """The mean over the PUBLIC expected cohort size, float32, shape (d,).

    Never the number that arrived and never a weighting by num_examples: both are private, and
    both raise the sensitivity (privacy section 1).
    """
    _check_cohort(expected_cohort)
    return np.asarray(total / np.float32(expected_cohort), dtype=np.float32)


def _check_cohort(expected_cohort: int) -> None:
    if expected_cohort < 1:
        raise PrivacyError(f"expected cohort size must be at least 1, got {expected_cohort}")


def rounded_clip_norm(clip_norm: float, *, dimension: int, scale: float) -> float:
    """C_eff = C*(1 + sqrt(d)/(s*C)): the norm after stochastic rounding (privacy section 5)."""
    return check_clip_norm(clip_norm) + math.sqrt(dimension) / scale


def charged_multiplier(
    noise_multiplier: float, *, clip_norm: float, dimension: int, scale: float
) -> float:
    """The multiplier to account when noise of std sigma*C protects rounded vectors of norm C_eff."""
    effective = rounded_clip_norm(clip_norm, dimension=dimension, scale=scale)
    return check_noise_multiplier(noise_multiplier) * clip_norm / effective
