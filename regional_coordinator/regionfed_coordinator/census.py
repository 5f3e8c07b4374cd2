"""What a region learns once from its clients, noised: label shares (h_r) and examples (n_r).

Both say how far noise alone could have moved them, so that routing never acts on noise
(privacy section 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regionfed.method.conflict import label_divergence
from regionfed.privacy.quantities import Quantity, histogram_labels
from regionfed.privacy.terms import RegionTerms
from regionfed_coordinator.release import Release

LOST = "lost"
"""Key of the reason where a census was asked for and did not arrive; it is not asked again."""


def census_of(terms: RegionTerms, released: Mapping[Quantity, Release]) -> dict[str, Any]:
    """The released figures as JSON values, with the standard deviation of their noise.

    `labels` are in clients (each counts once, spread over its labels), `examples` are scaled from
    the cohort to the region's clients.
    """
    found: dict[str, Any] = {}
    if (labels := released.get(Quantity.LABELS)) is not None:
        counts = np.maximum(labels.vector.astype(np.float64), 0.0) * terms.expected
        names = histogram_labels(terms.tasks)
        found["labels"] = dict(zip(names, map(float, counts), strict=True))
        found["labels_std"] = labels.noise_std * terms.expected
    if (size := released.get(Quantity.SIZE)) is not None:
        found["examples"] = max(0.0, float(size.vector[0])) * terms.clients
        found["examples_std"] = size.noise_std * terms.clients
    return found


def divergence_beyond_noise(
    own: Mapping[str, float], everyone: Mapping[str, float], *, std: float
) -> tuple[float, str]:
    """h_r less what noise alone makes of it, and why it is 0 where it says nothing.

    Noise of deviation s on a share p_i adds about s^2/(2 q_i) to the divergence from q; twice
    that is what chance reaches.
    """
    names = sorted(set(own) | set(everyone))
    if not names:
        return 0.0, "no labels are known"
    counts = np.array([own.get(name, 0.0) for name in names])
    others = np.array([everyone.get(name, 0.0) for name in names])
    h = label_divergence([*counts], [*others])
    shares = (others + 1.0) / (others.sum() + len(names))
    deviation = std / (counts.sum() + len(names))
    floor = 0.5 * deviation**2 * float(np.sum(1.0 / shares))
    if std and h <= 2.0 * floor:
        return 0.0, f"h = {h:.3g} is within the {2.0 * floor:.3g} that noise makes, taken as 0"
    return h - floor, ""


def size_beyond_noise(size: float, mean: float, *, ratio: float, std: float) -> tuple[float, str]:
    """n_r as routing may use it: no more than `ratio` times the mean, unless noise cannot explain it."""
    if not std or size <= ratio * mean:
        return size, ""
    if size - ratio * mean > 2.0 * std:
        return size, ""
    return mean, f"n = {size:.6g} exceeds {ratio:g} * mean n by no more than noise, taken as mean n"
