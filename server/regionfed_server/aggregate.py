"""From regional releases to the global step, and what the releases say about each other."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regionfed.errors import UpdateError
from regionfed.messages import RegionUpdate, Vector, finite_vector
from regionfed.method.conflict import (
    ConflictMatrix,
    calibrate_mu,
    conflict,
    conflict_matrix,
    noise_floor,
)
from regionfed.method.exact import ExactMean
from regionfed_server.sketched import Pairs, calibrated, sketched_conflict

_MEMORY_BYTES = 64 << 20


class Releases:
    """The g~_r of one round: their streaming mean, and the vectors themselves for the conflict.

    Small vectors stay in memory; large ones go to files of a scratch folder, so that the server's
    memory does not grow with the number of regions. With `control` regions also send the mean
    change of their clients' control variates (SCAFFOLD), which weighs by the clients behind it.
    `sketch_width` is the length of the conflict sketches that regions may send.
    """

    def __init__(
        self, size: int, buffer_size: int, *, control: bool = False, sketch_width: int = 0
    ) -> None:
        self.size = size
        self.sketch_width = sketch_width
        self.buffer_size = buffer_size
        self.mean = ExactMean(size)
        self.buffers = ExactMean(buffer_size) if buffer_size else None
        self.control = ExactMean(size) if control else None
        self.reports: dict[str, RegionUpdate] = {}
        self.skipped: dict[str, str] = {}
        self.sketches: dict[str, Vector] = {}
        self._vectors: dict[str, Vector] = {}
        self._scratch = (
            tempfile.TemporaryDirectory(prefix="regionfed-round-")
            if size * 4 > _MEMORY_BYTES
            else None
        )

    def add(self, name: str, answer: RegionUpdate, *, round: int) -> None:
        """Take one region's answer.

        Raises:
            UpdateError: it is for another round or region, of another shape, or not finite.
        """
        if answer.region != name or answer.round != round:
            raise UpdateError(f"an answer of {answer.region} for round {answer.round}")
        if answer.skipped:
            self.skipped[name] = answer.skipped
            self.reports[name] = answer
            return
        update = finite_vector("update", answer.update, self.size)
        if self.control is not None:
            clients = int(answer.report.get("clients", 0))
            self.control.add(finite_vector("control", answer.control, self.size), clients)
        if self.buffers is not None:
            self.buffers.add(finite_vector("buffers", answer.buffers, self.buffer_size))
        if answer.sketch is not None:
            if not float(answer.report.get("sketch_std", 0.0)) > 0:
                raise UpdateError("a conflict sketch that does not say how it is noised")
            self.sketches[name] = finite_vector("sketch", answer.sketch, self.sketch_width)
        self.mean.add(update, answer.weight)
        self._vectors[name] = self._keep(name, update)
        self.reports[name] = answer

    def vectors(self) -> dict[str, Vector]:
        """g~_r by region, in name order."""
        return {name: self._vectors[name] for name in sorted(self._vectors)}

    def close(self) -> None:
        """Remove the scratch files."""
        self._vectors.clear()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _keep(self, name: str, update: Vector) -> Vector:
        if self._scratch is None:
            return update
        path = Path(self._scratch.name) / f"{len(self._vectors)}.npy"
        np.save(path, update, allow_pickle=False)
        kept: Vector = np.load(path, mmap_mode="r", allow_pickle=False)
        return kept


@dataclass(frozen=True)
class Insight:
    """What a round's releases say: d_r and floors by region, and the conflict matrix.

    `energies` is what noise alone adds to the square of a region's distance from the mean, known
    where all releases carry their noise level; d_r is then debiased by it, and there is no matrix,
    because distances between noised vectors rank noise (privacy section 4). Where regions released
    sketches, `sketched` has what those say, and d_r is taken from it.
    """

    conflicts: dict[str, float] = field(default_factory=dict)
    floors: dict[str, float] = field(default_factory=dict)
    energies: dict[str, float] = field(default_factory=dict)
    matrix: ConflictMatrix | None = None
    sketched: Pairs = field(default_factory=dict)


def insight(releases: Releases, mean: Vector) -> Insight:
    """Conflict of each region with the global update (algorithm sections 3.4 and 4)."""
    vectors = releases.vectors()
    noises = [releases.reports[name].report.get("noise_std") for name in vectors]
    if vectors and all(noise is not None for noise in noises):
        return _under_noise(releases, vectors, mean, [float(n) for n in noises if n is not None])
    conflicts = {name: conflict(vector, mean) for name, vector in vectors.items()}
    variances = {name: releases.reports[name].report.get("variance") for name in vectors}
    floors: dict[str, float] = {}
    if len(vectors) > 1 and all(v is not None for v in variances.values()):
        weights = [float(releases.reports[name].weight) for name in vectors]
        found = noise_floor(
            [float(v) for v in variances.values() if v is not None], weights=weights
        )
        floors = dict(zip(vectors, (float(f) for f in found), strict=True))
    matrix = conflict_matrix(list(vectors.values())) if len(vectors) > 1 else None
    return Insight(conflicts=conflicts, floors=floors, matrix=matrix)


def _under_noise(
    releases: Releases, vectors: dict[str, Vector], mean: Vector, noises: list[float]
) -> Insight:
    """d_r less the known energy of the noise in it (privacy.sketch.debiased_conflict's formula)."""
    weights = np.array([float(releases.reports[name].weight) for name in vectors])
    weights /= weights.sum()
    variance = np.square(noises)
    per_coordinate = (1.0 - 2.0 * weights) * variance + float(np.dot(weights**2, variance))
    energies = dict(zip(vectors, (float(v) for v in mean.size * per_coordinate), strict=True))
    sketched = sketched_conflict(releases.sketches, releases.reports)
    squares = {
        name: sketched[name][0]
        if name in sketched
        else conflict(vector, mean) ** 2 - energies[name]
        for name, vector in vectors.items()
    }
    conflicts = {name: math.sqrt(max(0.0, square)) for name, square in squares.items()}
    return Insight(conflicts=conflicts, energies=energies, sketched=sketched)


def shared_scalars(shared: dict[str, Any], releases: Releases, found: Insight) -> dict[str, Any]:
    """The scalars that go out with the next orders; mu is set once, from the first conflicts."""
    reports = [r.report for r in releases.reports.values() if not r.skipped]
    sizes = [float(report["examples"]) for report in reports if "examples" in report]
    labels: dict[str, float] = {}
    for report in reports:
        for name, count in dict(report.get("labels", {})).items():
            labels[name] = labels.get(name, 0.0) + float(count)
    new = dict(shared)
    if found.sketched:
        windows = [int(report.get("conflict_window", 0)) for report in reports]
        new |= calibrated(shared, found.sketched, window=max(windows))
    elif "mu" not in new and found.conflicts:
        new["mu"] = calibrate_mu(list(found.conflicts.values()))
    if sizes:
        new["mean_examples"] = sum(sizes) / len(sizes)
    if labels:
        new["labels"] = labels
    if found.floors:
        new["floors"] = found.floors
    if found.energies:
        new["noise_energy"] = found.energies
    return new
