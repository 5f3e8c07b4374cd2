"""Conflict between regions from their noised sketches, and mu calibrated over a window of rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from regionfed.messages import RegionUpdate, Vector
from regionfed.method.conflict import calibrate_mu
from regionfed.privacy.sketch import debiased_conflict

Pairs = dict[str, tuple[float, float]]
"""By region: the debiased square of its distance, and the energy of the noise taken off it."""


def sketched_conflict(sketches: Mapping[str, Vector], reports: Mapping[str, RegionUpdate]) -> Pairs:
    """Each region's distance from the mean of the regions that sent a sketch (privacy section 4).

    Empty below two regions: a distance needs somebody else.
    """
    if len(sketches) < 2:
        return {}
    names = sorted(sketches)
    width = len(sketches[names[0]])
    found = debiased_conflict(
        np.stack([sketches[name] for name in names]),
        noise_std=np.array([float(reports[name].report["sketch_std"]) for name in names]),
        weights=np.array([float(reports[name].weight) for name in names]),
    )
    # The standard deviation of a square over k coordinates is its mean times sqrt(2/k).
    energies = found.noise_std / math.sqrt(2.0 / width)
    return {
        name: (float(squared), float(energy))
        for name, squared, energy in zip(names, found.squared, energies, strict=True)
    }


def calibrated(shared: Mapping[str, Any], pairs: Pairs, *, window: int) -> dict[str, Any]:
    """The scalars that follow: the pairs, the sums behind mu, and mu itself.

    One round's square is mostly noise, so mu is the median of the d_r over the first `window`
    rounds of each region and stays from then on; nothing acts on it earlier.
    """
    sums = {name: list(value) for name, value in dict(shared.get("sketch_sums", {})).items()}
    for name, (squared, _) in pairs.items():
        total, count = sums.get(name, [0.0, 0])
        if count < window:
            sums[name] = [total + squared, count + 1]
    known = [math.sqrt(max(0.0, total / count)) for total, count in sums.values()]
    return {"sketch": pairs, "sketch_sums": sums, "mu": calibrate_mu(known)}
