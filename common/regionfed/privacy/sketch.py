"""Conflict between regions under noise: a small sketch of the update, and its debiased distance.

The distance of noised full vectors ranks noise, not conflict (privacy section 4). A CountSketch
(Charikar et al. 2002) keeps squared distances in expectation in 32 to 64 numbers, so its noise
does not grow with d. It is linear: the sum of the clients' sketches is the sketch of their sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regionfed.errors import PrivacyError, UpdateError
from regionfed.privacy.mechanisms import Vector, clip
from regionfed.training.seeds import derive_seed

DEFAULT_WIDTH = 32
_CHUNK = 1 << 20


def count_sketch(vector: Vector, *, width: int = DEFAULT_WIDTH, seed: int) -> Vector:
    """The CountSketch of a flat vector, float32, shape (width,).

    Bucket and sign of each coordinate come from `seed`, which is public and the same for all
    regions of a run; nothing about them needs to be secret. Chunked: memory is constant in d.
    Raises PrivacyError for a width outside 1..32768 or a negative seed.
    """
    if not 1 <= width <= 32_768 or seed < 0:
        raise PrivacyError(f"sketch width {width} must be in 1..32768 and its seed {seed} >= 0")
    out = np.zeros(width)
    for number, start in enumerate(range(0, vector.size, _CHUNK)):
        chunk = vector[start : start + _CHUNK].astype(np.float64)
        # The chunk number in the counter's top word gives every chunk a stream of its own.
        rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, number]))
        draws = rng.integers(0, 2 * width, chunk.size, dtype=np.uint16)
        np.negative(chunk, out=chunk, where=(draws & 1).astype(bool))
        out += np.bincount(draws >> 1, weights=chunk, minlength=width)
    return out.astype(np.float32)


def sketch_seed(seed: int, round: int) -> int:
    """Public seed of a round's sketches, from the run's; a new one each round averages the hashes."""
    return derive_seed(seed, round, "conflict-sketch")


def client_sketch(
    clipped_update: Vector, *, width: int = DEFAULT_WIDTH, seed: int, clip_norm: float
) -> Vector:
    """Sketch a client's clipped update and clip again, shape (width,).

    Sketching keeps the norm only in expectation, so the second clip is what bounds sensitivity.
    """
    return clip(count_sketch(clipped_update, width=width, seed=seed), clip_norm).vector


@dataclass(frozen=True)
class ConflictEstimate:
    """Per region: the squared distance to the mean of the regions, and what noise alone makes of it.

    `squared` is unbiased and may be negative; `noise_std` is its standard deviation when there is
    no conflict at all. Both have shape (regions,).
    """

    squared: npt.NDArray[np.float64]
    noise_std: npt.NDArray[np.float64]


def debiased_conflict(
    means: npt.NDArray[np.float32],
    *,
    noise_std: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64] | None = None,
) -> ConflictEstimate:
    """||mean_r - global mean||^2 minus the known noise energy of that difference.

    `means` is (regions, k): noised regional means of sketches, or of full vectors. `noise_std` is
    (regions,): the noise per coordinate of each mean, sigma*C/n_r, known without looking at data.
    `weights` are the regions' weights in the global mean, equal by default.
    Raises UpdateError when the shapes do not fit.
    """
    regions, k = means.shape
    w = np.full(regions, 1.0 / regions) if weights is None else np.asarray(weights, np.float64)
    if noise_std.shape != (regions,) or w.shape != (regions,):
        raise UpdateError(
            f"{regions} regional means need {regions} noise levels and weights, "
            f"got {noise_std.shape} and {w.shape}"
        )
    w = w / w.sum()
    variance = np.square(noise_std)
    # The region's own noise enters with 1 - w_r, everybody else's with w_s.
    per_coordinate = (1.0 - 2.0 * w) * variance + np.dot(np.square(w), variance)
    centre = np.zeros(k)
    for weight, row in zip(w, means, strict=True):
        centre += weight * row
    raw = np.array([float(np.sum(np.square(row - centre))) for row in means])
    return ConflictEstimate(
        squared=raw - k * per_coordinate, noise_std=per_coordinate * math.sqrt(2.0 * k)
    )


@dataclass(frozen=True)
class AveragedConflict:
    """d_r per region from averaged estimates; `above_noise` says which stand out of the noise."""

    conflict: npt.NDArray[np.float64]
    above_noise: npt.NDArray[np.bool_]
    rounds: int


def average_conflict(history: Sequence[ConflictEstimate], *, window: int) -> AveragedConflict:
    """Average the last `window` estimates before taking the root; negative averages give 0.

    Raises UpdateError for an empty history.
    """
    recent = list(history)[-window:]
    if not recent:
        raise UpdateError("there is no conflict estimate yet to average")
    squared = np.mean([estimate.squared for estimate in recent], axis=0)
    spread = np.sqrt(np.sum([np.square(e.noise_std) for e in recent], axis=0)) / len(recent)
    return AveragedConflict(
        conflict=np.sqrt(np.maximum(squared, 0.0)),
        above_noise=squared > 2.0 * spread,
        rounds=len(recent),
    )
