"""How much a region disagrees with the global update, and how much of that is chance.

Conflict d_r, its calibration, the map of who disagrees with whom, the noise floor of d_r and
the divergence of label histograms (algorithm sections 3.4, 3.5, 3.6 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regionfed.errors import ConfigError, DataError, UpdateError
from regionfed.method.vectors import Matrix, Vector, blocks, check_vector, distance


def conflict(region_update: Vector, global_update: Vector) -> float:
    """d_r = ||g_r - g||_2, in the units of the update (algorithm section 3.4).

    Both are gradient-like vectors of length d, as released. Raises `UpdateError` when they are
    not flat, finite float32 vectors of one length.
    """
    check_vector(region_update, name="regional update")
    check_vector(global_update, name="global update", size=region_update.size)
    return distance(region_update, global_update)


@dataclass(frozen=True)
class ConflictMatrix:
    """Pairwise disagreement of R regions: both arrays are (R, R), float64 and symmetric.

    `distances` are L2 distances (zero diagonal). `cosines` lie in [-1, 1] (unit diagonal); a
    region whose update is zero has cosine 0 with everybody, itself included.
    """

    distances: Matrix
    cosines: Matrix


def conflict_matrix(vectors: Sequence[Vector]) -> ConflictMatrix:
    """Compare R regional updates of length d with each other (algorithm section 4).

    One pass over the vectors in blocks; distances are sums of squared differences, which stay
    exact for nearly equal regions where the expansion by inner products would cancel.
    Raises `UpdateError` for no vectors or unequal ones.
    """
    if not vectors:
        raise UpdateError("conflict matrix of no regions: give at least one update")
    size = vectors[0].size
    for index, vector in enumerate(vectors):
        check_vector(vector, name=f"regional update {index}", size=size)
    count = len(vectors)
    squares = np.zeros((count, count))
    inner = np.zeros((count, count))
    for part in blocks(size, step=1 << 17):
        block = np.stack([vector[part] for vector in vectors]).astype(np.float64)
        inner += block @ block.T
        for row in range(count - 1):
            difference = block[row + 1 :] - block[row]
            squares[row, row + 1 :] += np.einsum("ij,ij->i", difference, difference)
    norms = np.sqrt(np.diag(inner))
    scale = np.outer(norms, norms)
    cosines = np.divide(inner, scale, out=np.zeros_like(inner), where=scale > 0)
    return ConflictMatrix(
        distances=np.sqrt(squares + squares.T), cosines=np.clip(cosines, -1.0, 1.0)
    )


def calibrate_mu(conflicts: Sequence[float]) -> float:
    """mu = median of the regions' d_r of round 1; an even count takes the middle two's mean.

    Source: algorithm section 3.5. Raises `UpdateError` for none, or one that is negative or not
    finite.
    """
    if not conflicts:
        raise UpdateError("mu from no conflicts: round 1 has no region that answered")
    for value in conflicts:
        if not (math.isfinite(value) and value >= 0):
            raise UpdateError(f"mu from a conflict of {value}: d_r must be finite and >= 0")
    return float(np.median(np.asarray(conflicts, dtype=np.float64)))


def variance_from_halves(half_a: Vector, half_b: Vector, *, n_a: float, n_b: float) -> float:
    """V_r = E||g_r - E g_r||^2 estimated from the mean updates of two halves of a region's clients.

    Client updates are m_r + e_i with independent e_i of total variance s^2 = tr Cov(e_i). The
    halves' means differ by E||A - B||^2 = s^2*(1/n_a + 1/n_b), whatever m_r is; the mean over all
    n = n_a + n_b clients has V_r = s^2/n. So

        V_r = ||A - B||^2 / (n*(1/n_a + 1/n_b)),

    which is ||A - B||^2 / 4 for equal halves: the halves lie twice as far apart as the whole
    region typically lies from its own expectation. For means weighted by examples, n_a and n_b
    are effective client counts, (sum w)^2 / sum w^2.

    Raises `ConfigError` for counts that are not positive.
    """
    if not (n_a > 0 and n_b > 0):
        raise ConfigError(f"halves of {n_a} and {n_b} clients: each needs at least one")
    gap = conflict(half_a, half_b)
    return gap * gap / ((n_a + n_b) * (1.0 / n_a + 1.0 / n_b))


def noise_floor(
    variances: Sequence[float], *, weights: Sequence[float] | None = None
) -> npt.NDArray[np.float64]:
    """The d_r that chance alone makes, for each of R regions: sqrt(E d_r^2) were they all alike.

    With g = sum_k w_k g_k, the region itself among them, and equal expectations, g_r - g is
    (1 - w_r)*e_r - sum over k != r of w_k*e_k, hence

        floor_r^2 = (1 - w_r)^2 * V_r + sum over k != r of w_k^2 * V_k.

    `variances` are the V_r of `variance_from_halves` (squared update units); `weights` are the
    regions' weights in the global mean, equal where not given. Noise that is added on purpose has
    V_r = d*std^2 and goes through the same formula (`without_floor`). A single region has floor 0.
    Raises `ConfigError` for counts that do not match, or negative or non-finite entries.
    """
    v = np.asarray(variances, dtype=np.float64)
    w = np.ones(v.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if v.size == 0 or w.shape != v.shape:
        raise ConfigError(f"noise floor of {v.size} variances with {w.size} weights")
    if not (np.isfinite(v).all() and np.isfinite(w).all() and (v >= 0).all() and (w > 0).all()):
        raise ConfigError("noise floor: variances must be >= 0, weights > 0, all finite")
    w = w / w.sum()
    everyone = float(np.sum(w**2 * v))
    floor: npt.NDArray[np.float64] = np.sqrt((1 - w) ** 2 * v + everyone - w**2 * v)
    return floor


def without_floor(d: float, *, floor: float) -> float:
    """The conflict left after the energy of a known noise floor: sqrt(max(0, d^2 - floor^2)).

    Source: privacy section 4, the estimator that subtracts the known noise energy.
    """
    return math.sqrt(max(0.0, d * d - floor * floor))


def label_divergence(
    counts_region: Sequence[float], counts_global: Sequence[float], *, smoothing: float = 1.0
) -> float:
    """h_r = KL(region || global) of two label histograms, in nats (algorithm section 3.6).

    `smoothing` is added to every count of both (1 is add-one smoothing, 0 none). Counts may be
    fractions. Noised counts are to be clamped at 0 first.

    Raises `DataError` for histograms of unequal or zero length, negative or non-finite counts,
    an empty histogram, or, without smoothing, a label that only the region has.
    """
    p = np.asarray(counts_region, dtype=np.float64) + smoothing
    q = np.asarray(counts_global, dtype=np.float64) + smoothing
    if p.ndim != 1 or p.shape != q.shape or p.size == 0:
        raise DataError(f"label histograms of shapes {p.shape} and {q.shape}: one label set")
    if not (np.isfinite(p).all() and np.isfinite(q).all()) or smoothing < 0:
        raise DataError("label histograms must be finite, smoothing >= 0")
    if (p < smoothing).any() or (q < smoothing).any():
        raise DataError("a label histogram has a negative count; clamp noised counts at 0")
    if p.sum() == 0 or q.sum() == 0:
        raise DataError("an empty label histogram has no distribution; use smoothing = 1")
    p, q = p / p.sum(), q / q.sum()
    held = p > 0
    if (q[held] == 0).any():
        raise DataError(
            f"label {int(np.argmax(held & (q == 0)))} occurs in the region but not globally, the "
            "divergence is infinite; use smoothing = 1"
        )
    # Rounding can leave a tiny negative sum where both agree.
    return max(0.0, float(np.sum(p[held] * np.log(p[held] / q[held]))))
