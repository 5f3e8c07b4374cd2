"""Flat vectors: checks, norms, distances, clipping and streamed means.

A vector is a one-dimensional float32 array of length d (algorithm section 1). Sums run in
float64 over blocks, so that a vector of 60 million entries needs no second copy of itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from regionfed.errors import ConfigError, UpdateError

Vector = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float64]

# Entries per block: 8 MiB of float64, large enough to amortise the Python loop.
BLOCK = 1 << 20


def blocks(size: int, *, step: int = BLOCK) -> Iterator[slice]:
    """Yield the consecutive slices that cover `size` entries."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def check_vector(vector: Vector, *, name: str, size: int | None = None) -> Vector:
    """Return `vector` if it is a flat, finite float32 vector, of length `size` where given.

    Raises `UpdateError` naming the vector, what it is and what was expected.
    """
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32:
        given = getattr(vector, "dtype", type(vector).__name__)
        raise UpdateError(f"{name}: expected a float32 vector, got {given}; convert it first")
    if vector.ndim != 1 or vector.size == 0:
        raise UpdateError(
            f"{name}: expected a non-empty flat vector, got shape {vector.shape}; flatten the "
            "trainable parameters in named_parameters() order"
        )
    if size is not None and vector.size != size:
        raise UpdateError(
            f"{name}: expected {size} entries, got {vector.size}; both sides must hold the same "
            "model with the same trainable parameters"
        )
    for part in blocks(vector.size):
        finite = np.isfinite(vector[part])
        if not finite.all():
            where = part.start + int(np.argmin(finite))
            raise UpdateError(
                f"{name}: entry {where} is {vector[where]}; the training diverged, lower the "
                "learning rate or clip"
            )
    return vector


def dot(a: Vector, b: Vector) -> float:
    """Inner product of two vectors of length d, accumulated in float64."""
    _same_size(a, b)
    total = 0.0
    for part in blocks(a.size):
        total += float(np.dot(a[part].astype(np.float64), b[part].astype(np.float64)))
    return total


def l2_norm(vector: Vector) -> float:
    """Euclidean norm of a vector of length d, accumulated in float64."""
    return math.sqrt(dot(vector, vector))


def distance(a: Vector, b: Vector) -> float:
    """Euclidean distance of two vectors of length d, accumulated in float64."""
    _same_size(a, b)
    total = 0.0
    for part in blocks(a.size):
        difference = a[part].astype(np.float64) - b[part]
        total += float(np.dot(difference, difference))
    return math.sqrt(total)


def clip_to_norm(vector: Vector, bound: float) -> Vector:
    """Scale a vector down to L2 norm `bound`: v / max(1, ||v|| / bound) (algorithm section 3.2).

    A vector within the bound comes back unchanged (the same object); `inf` never clips.
    Raises `ConfigError` for a bound that is not positive.
    """
    if not bound > 0:
        raise ConfigError(f"clipping norm {bound}: must be positive (inf turns clipping off)")
    norm = l2_norm(vector)
    if norm <= bound:
        return vector
    clipped: Vector = (vector * np.float64(bound / norm)).astype(np.float32)
    return clipped


class WeightedMean:
    """A weighted mean over a stream of vectors that holds one float64 sum, whatever their number."""

    def __init__(self, size: int) -> None:
        self._sum = np.zeros(size, dtype=np.float64)
        self.weight = 0.0
        self.count = 0

    def add(self, vector: Vector, *, weight: float = 1.0, name: str = "vector") -> None:
        """Add one vector of length d with a positive, finite weight.

        Raises `UpdateError` for an unusable vector or weight; the sum is then unchanged.
        """
        if not (math.isfinite(weight) and weight > 0):
            raise UpdateError(f"{name}: weight {weight}; a weight must be positive and finite")
        check_vector(vector, name=name, size=self._sum.size)
        for part in blocks(vector.size):
            self._sum[part] += weight * vector[part].astype(np.float64)
        self.weight += weight
        self.count += 1

    def result(self) -> Vector:
        """Return the mean of what was added, float32. Raises `UpdateError` if nothing was."""
        if self.count == 0:
            raise UpdateError("mean of no vectors: nothing was added")
        mean = np.empty(self._sum.size, dtype=np.float32)
        for part in blocks(mean.size):
            mean[part] = self._sum[part] / self.weight
        return mean


def weighted_mean(vectors: Iterable[Vector], *, weights: Sequence[float] | None = None) -> Vector:
    """Mean of vectors of one length d, equal weights where none are given (algorithm section 3.3).

    Raises `UpdateError` for no vectors, unequal lengths, or weights that do not match in number.
    """
    mean: WeightedMean | None = None
    for index, vector in enumerate(vectors):
        if mean is None:
            mean = WeightedMean(vector.size)
        if weights is not None and index >= len(weights):
            raise UpdateError(f"more vectors than the {len(weights)} weights given")
        mean.add(vector, weight=1.0 if weights is None else weights[index], name=f"vector {index}")
    if mean is None:
        raise UpdateError("mean of no vectors: give at least one")
    if weights is not None and mean.count != len(weights):
        raise UpdateError(f"{mean.count} vectors but {len(weights)} weights")
    return mean.result()


def combine(
    a: Vector, b: Vector, *, scale_a: float = 1.0, scale_b: float = 1.0, out: Vector | None = None
) -> Vector:
    """Return scale_a*a + scale_b*b, computed in float64 per block and rounded once.

    `out` may be `a` or `b` for a sum in place. Raises `UpdateError` for unequal lengths.
    """
    _same_size(a, b)
    result = np.empty(a.size, dtype=np.float32) if out is None else out
    _same_size(a, result)
    for part in blocks(a.size):
        result[part] = scale_a * a[part].astype(np.float64) + scale_b * b[part].astype(np.float64)
    return result


def _same_size(a: Vector, b: Vector) -> None:
    if a.shape != b.shape or a.ndim != 1:
        raise UpdateError(
            f"vectors of shapes {a.shape} and {b.shape} do not go together; both sides must hold "
            "the same model with the same trainable parameters"
        )
