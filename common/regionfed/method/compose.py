"""The model that is served: global, plus regional, plus the user's own (section 3.8)."""

from __future__ import annotations

import math

import numpy as np

from regionfed.errors import UpdateError
from regionfed.method.vectors import Vector, blocks, check_vector


def compose(
    theta: Vector,
    *,
    regional: Vector | None = None,
    alpha_region: float = 1.0,
    user: Vector | None = None,
    alpha_user: float = 1.0,
    out: Vector | None = None,
) -> Vector:
    """Return theta + alpha_region*regional + alpha_user*user, vectors of length d.

    A level that is not there is left out. Terms are summed in float64 per block and rounded once;
    `out=theta` composes in place and needs no further vector.

    Raises `UpdateError` for unequal lengths, non-finite vectors or weights, or a sum that leaves
    the range of float32. `out` may then be partly written.
    """
    check_vector(theta, name="theta")
    terms: list[tuple[float, Vector]] = []
    for name, vector, weight in (
        ("theta_r", regional, alpha_region),
        ("theta_u", user, alpha_user),
    ):
        if vector is None:
            continue
        if not math.isfinite(weight):
            raise UpdateError(f"{name}: its weight is {weight}; a strength must be finite")
        terms.append((weight, check_vector(vector, name=name, size=theta.size)))
    served = np.empty_like(theta) if out is None else out
    if served.shape != theta.shape or served.dtype != np.float32:
        raise UpdateError(f"out: expected float32 of shape {theta.shape}, got {served.shape}")
    for part in blocks(theta.size):
        total = theta[part].astype(np.float64)
        for weight, vector in terms:
            total += weight * vector[part].astype(np.float64)
        if np.abs(total).max() > np.finfo(np.float32).max:
            raise UpdateError("the composed model leaves the range of float32; lower rho or alpha")
        served[part] = total
    return served
