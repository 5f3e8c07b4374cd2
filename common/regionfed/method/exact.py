"""A weighted mean that does not depend on the order in which its terms arrive.

Answers of clients come in any order. Floating-point sums would differ in their last bit from run
to run, so terms are rounded once to a fixed-point grid and summed as integers, which is exact and
needs one accumulator whatever the number of clients.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regionfed.errors import UpdateError

_BLOCK = 1 << 20


class ExactMean:
    """Streaming mean of float32 vectors of length `size` with integer weights.

    The grid is 2^-`bits`: with the default 36 bits the mean is exact to 1.5e-11. `add` raises
    `UpdateError` when a term is so large that the sum could overflow; nothing is added then.
    """

    def __init__(self, size: int, bits: int = 36) -> None:
        self._sum: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self._scale = float(2**bits)
        self._bound = 0.0
        self.weight = 0
        self.squares = 0
        self.terms = 0

    def add(self, vector: NDArray[np.float32], weight: int = 1) -> None:
        """Add one finite term of shape (size,) with a positive integer weight."""
        if vector.shape != self._sum.shape:
            raise UpdateError(f"vector of shape {vector.shape}, expected {self._sum.shape}")
        if weight < 1:
            raise UpdateError(f"weight {weight} is not a positive integer")
        largest = float(np.max(np.abs(vector))) if vector.size else 0.0
        bound = self._bound + (largest * self._scale + 1.0) * weight
        if not bound < 2.0**62:
            raise UpdateError(
                f"vector with an entry of size {largest:.3g} and weight {weight} does not fit the "
                "exact sum; use a smaller learning rate or equal weights"
            )
        for start in range(0, vector.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            term = np.rint(vector[block].astype(np.float64) * self._scale).astype(np.int64)
            if weight != 1:
                term *= weight
            self._sum[block] += term
        self._bound = bound
        self.weight += weight
        self.squares += weight * weight
        self.terms += 1

    def mean(self) -> NDArray[np.float32]:
        """The weighted mean, float32 of shape (size,). At least one term must have been added."""
        assert self.weight > 0, "mean of no terms"
        out = np.empty(self._sum.shape, dtype=np.float32)
        divisor = self._scale * self.weight
        for start in range(0, out.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            out[block] = self._sum[block] / divisor
        return out

    @property
    def effective(self) -> float:
        """Number of equally weighted terms of the same variance: (sum w)^2 / sum w^2."""
        return self.weight * self.weight / self.squares if self.squares else 0.0

    def without(self, part: ExactMean) -> ExactMean:
        """The sum of the terms that are not in `part`, whose terms must all be in this sum."""
        rest = ExactMean(0)
        rest._sum = self._sum - part._sum
        rest._scale = self._scale
        rest._bound = self._bound
        rest.weight = self.weight - part.weight
        rest.squares = self.squares - part.squares
        rest.terms = self.terms - part.terms
        return rest
