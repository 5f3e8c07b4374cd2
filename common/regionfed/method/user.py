"""The user level on the device: alpha_u with a calibration of its own (section 3.8).

The state is small, bounded and JSON; it stays on the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from regionfed.errors import StateError, UpdateError
from regionfed.method.conflict import conflict
from regionfed.method.strength import Scale, strength
from regionfed.method.vectors import Vector

WINDOW = 31


@dataclass(frozen=True)
class UserCalibration:
    """The last conflicts ||g_u - g_r|| this device saw, oldest first, at most `WINDOW` of them."""

    conflicts: tuple[float, ...] = ()

    @property
    def mu(self) -> float:
        """mu_u, the running median, in update units. Raises `StateError` before any conflict."""
        if not self.conflicts:
            raise StateError("mu_u is not calibrated: this device has seen no conflict yet")
        return float(np.median(self.conflicts))

    def observe(self, d_u: float) -> UserCalibration:
        """Return the calibration with one more conflict (finite, >= 0), else `UpdateError`."""
        if not (math.isfinite(d_u) and d_u >= 0):
            raise UpdateError(f"user conflict {d_u}: must be finite and >= 0")
        return UserCalibration((*self.conflicts, float(d_u))[-WINDOW:])

    def to_dict(self) -> dict[str, list[float]]:
        """Return the JSON form."""
        return {"conflicts": list(self.conflicts)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> UserCalibration:
        """Read the JSON form back. Raises `StateError` for anything else."""
        values = data.get("conflicts")
        if not isinstance(values, list) or len(values) > WINDOW:
            raise StateError(f"user calibration: 'conflicts' must be a list of <= {WINDOW} numbers")
        if not all(isinstance(v, (int, float)) and math.isfinite(v) and v >= 0 for v in values):
            raise StateError("user calibration: 'conflicts' holds a value that is no conflict")
        return cls(tuple(float(v) for v in values))


def user_strength(
    user_update: Vector,
    region_update: Vector,
    *,
    calibration: UserCalibration,
    tau: float = 1.0,
    alpha_min: float = 0.5,
    scale: Scale = "paper",
) -> tuple[float, UserCalibration]:
    """Return alpha_u from ||g_u - g_r|| and the calibration that includes it.

    Both updates are gradient-like, length d. The first call gives the middle of the range: with
    one conflict seen, it is its own median. Raises `UpdateError` for unusable vectors.
    """
    d_u = conflict(user_update, region_update)
    calibration = calibration.observe(d_u)
    alpha = strength(d_u, mu=calibration.mu, tau=tau, alpha_min=alpha_min, scale=scale)
    return alpha, calibration
