"""Do regions differ by more than the scatter of their own clients? The test behind `diagnose`.

Model: unit i of region r (a client, or the mean of m_i clients; units are disjoint) reports
u_i = m_r + e_i with Cov(e_i) = S_r / m_i. Two estimates per region come from it: the mean g_r and
its variance V_r = tr S_r / sum m_i from the scatter within the region.

Region r is compared with every other: F_rk = ||g_r - g_k||^2 / (V_r + V_k), near 1 where only
chance separates them. Its statistic is the lower median over k, so that a region is judged against the
majority: one region in conflict does not make the aligned ones look so, as the distance to a mean
that it pulls along would.

The null distribution is simulated (parametric bootstrap): alike Gaussian regions with the same
units, in as many equally noisy dimensions as the clients' scatter effectively has. An aligned region may have just a bare majority on its
side, and its lower median is then the largest of those F; so the simulation takes, per region, the
largest F against as many alike regions as make the majority. Comparing with the largest of these
over all regions (Westfall and Young 1993, max-T) holds the probability of any false alarm at the
level. Drawing rather than permuting labels is what makes two halves
per region enough, which is all that a secure sum shows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regionfed.errors import DataError, UpdateError
from regionfed.method.vectors import Matrix, Vector, check_vector, weighted_mean

# Beyond this many dimensions F hardly varies; fewer than there are is on the safe side.
_MOST_DIMENSIONS = 256
# One-sided 95% quantile of the normal distribution.
_Z95 = 1.6449


@dataclass(frozen=True)
class RegionUnits:
    """Gradient-like updates of one region's disjoint units: `vectors` is (q, k), q >= 2.

    k is the model's d or a sketch's length, the same for all regions; `clients` holds how many
    clients each unit's mean is over (all 1 for single clients). Repeated rounds of the same unit
    are averaged first (`average_rounds`): they are no new units.
    """

    name: str
    vectors: npt.NDArray[np.float32]
    clients: Sequence[float]

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.clients) != len(self.vectors):
            raise UpdateError(
                f"region {self.name}: {len(self.clients)} client counts for updates of shape "
                f"{self.vectors.shape}; give one row per unit"
            )
        if len(self.vectors) < 2:
            raise DataError(
                f"region {self.name}: one unit shows no scatter; give at least two disjoint "
                "groups of its clients, such as two halves"
            )
        if not all(math.isfinite(m) and m > 0 for m in self.clients):
            raise DataError(f"region {self.name}: a unit is the mean of at least one client")
        for index, vector in enumerate(self.vectors):
            check_vector(vector, name=f"region {self.name}, unit {index}")


@dataclass(frozen=True)
class Dispersion:
    """What the comparison found for R regions, float64.

    `means` (R, k) are the g_r, `variances` (R,) the V_r, `gaps` (R, R) the squared distances with
    chance subtracted, estimates of ||m_r - m_k||^2 that may be negative. `ratios` (R,) are the
    median F of each region, `p_values` (R,) the probability that any of R alike regions reaches
    that, `null` (draws,) the simulated largest F behind it, ascending.
    """

    means: Matrix
    variances: npt.NDArray[np.float64]
    gaps: Matrix
    ratios: npt.NDArray[np.float64]
    p_values: npt.NDArray[np.float64]
    null: npt.NDArray[np.float64]


def average_rounds(rounds: Sequence[Sequence[Vector]]) -> npt.NDArray[np.float32]:
    """Mean per unit over repeated rounds at one model: rounds of q vectors each to (q, k).

    Raises `UpdateError` when rounds differ in their units.
    """
    if not rounds or any(len(units) != len(rounds[0]) for units in rounds):
        raise UpdateError("averaging rounds: every round needs the same units, at least one round")
    return np.stack([weighted_mean(unit) for unit in zip(*rounds, strict=True)])


def disperse(regions: Sequence[RegionUnits], *, draws: int = 999, seed: int = 0) -> Dispersion:
    """Compare R >= 2 regions as the module says; equal seeds give equal p-values.

    Raises `DataError` for fewer than two regions, `UpdateError` for unequal vector lengths.
    """
    if len(regions) < 2:
        raise DataError(f"{len(regions)} region: conflict needs at least two regions to compare")
    length = regions[0].vectors.shape[1]
    for region in regions:
        if region.vectors.shape[1] != length:
            raise UpdateError(
                f"region {region.name}: updates of length {region.vectors.shape[1]}, others have "
                f"{length}"
            )
    sizes = [np.asarray(region.clients, dtype=np.float64) for region in regions]
    data = [region.vectors.astype(np.float64) for region in regions]
    means, residuals = _centre(data, sizes)
    variances = np.asarray([_variance(e, m) for e, m in zip(residuals, sizes, strict=True)])
    squares = _square_distances(means)
    gaps = squares - variances[:, None] - variances[None, :]
    np.fill_diagonal(gaps, 0.0)
    ratios = lower_median(_ratios(squares[None], variances[None]))[0]
    dimensions = effective_dimensions(residuals, freedom=sum(len(m) - 1 for m in sizes))
    largest = _simulate_largest(sizes, dimensions=dimensions, draws=draws, seed=seed)
    exceed = (largest[None, :] >= ratios[:, None]).sum(axis=1)
    return Dispersion(
        means=means,
        variances=variances,
        gaps=gaps,
        ratios=ratios,
        p_values=(1.0 + exceed) / (1.0 + draws),
        null=np.sort(largest),
    )


def _centre(
    data: Sequence[Matrix], sizes: Sequence[npt.NDArray[np.float64]]
) -> tuple[Matrix, list[Matrix]]:
    """Weighted means, and residuals scaled by sqrt(m_i) so that all have covariance S."""
    means = np.stack([m @ x / m.sum() for x, m in zip(data, sizes, strict=True)])
    residuals = [
        np.sqrt(m)[:, None] * (x - mean) for x, m, mean in zip(data, sizes, means, strict=True)
    ]
    return means, residuals


def _variance(residuals: Matrix, sizes: npt.NDArray[np.float64]) -> float:
    return float(np.sum(residuals**2) / ((len(sizes) - 1) * sizes.sum()))


def _square_distances(means: Matrix) -> Matrix:
    squares = np.zeros((len(means), len(means)))
    for row in range(len(means) - 1):
        difference = means[row + 1 :] - means[row]
        squares[row, row + 1 :] = np.einsum("ij,ij->i", difference, difference)
    return squares + squares.T


def _ratios(squares: Matrix, variances: Matrix) -> Matrix:
    """F of every region against every other: (B, R, R) and (B, R) to (B, R, R - 1)."""
    count = squares.shape[-1]
    spread = variances[..., :, None] + variances[..., None, :]
    # Without any scatter (identical clients) the smallest difference is infinitely unlikely.
    silent = np.where(squares > 0, np.inf, 0.0)
    ratios = np.divide(squares, spread, out=silent, where=spread > 0)
    return ratios[:, ~np.eye(count, dtype=bool)].reshape(len(ratios), count, count - 1)


def lower_median(values: Matrix) -> Matrix:
    """Median over the last axis; of an even count the smaller of the middle two.

    A region that agrees with just as many others as it disagrees with, itself counted, is in the
    majority.
    """
    middle = _majority(values.shape[-1]) - 1
    return np.asarray(np.partition(values, middle, axis=-1)[..., middle])


def _majority(others: int) -> int:
    """How many of the others a region needs on its side to be in the majority with them."""
    return (others + 1) // 2


def effective_dimensions(residuals: Sequence[Matrix], *, freedom: int) -> int:
    """In how many dimensions the clients scatter, erring on the low side, at least 1.

    Satterthwaite's (tr S)^2 / tr S^2. Products of residuals of different regions, which are
    independent, have E (e_r . e_s)^2 = tr S^2 however few there are; the sample covariance's own
    spectrum would overstate it. `residuals` are the (q_r, k) rows of each region with covariance
    S; `freedom` is the number of independent ones, on which the one-sided 95% bound rests (chi
    square quantile after Wilson and Hilferty 1931).
    """
    lengths = sum(
        float(np.sum(a**2) * np.sum(b**2)) for a, b in itertools.combinations(residuals, 2)
    )
    products = sum(float(np.sum((a @ b.T) ** 2)) for a, b in itertools.combinations(residuals, 2))
    if products == 0:
        return 1
    third = 2 / (9 * freedom)
    bound = max(0.0, 1 - third - _Z95 * math.sqrt(third)) ** 3
    return int(min(max(1.0, bound * lengths / products), _MOST_DIMENSIONS))


def _simulate_largest(
    sizes: Sequence[npt.NDArray[np.float64]], *, dimensions: int, draws: int, seed: int
) -> npt.NDArray[np.float64]:
    """Largest statistic over the regions in each of `draws` federations of alike regions."""
    rng = np.random.default_rng(seed)
    count = len(sizes)
    total = np.asarray([m.sum() for m in sizes])
    freedom = np.asarray([len(m) - 1 for m in sizes])
    # A rotating window picks, per region, as many others as make a majority with it.
    order = (np.arange(count)[:, None] + np.arange(_majority(count - 1))) % (count - 1)
    largest = np.empty(draws)
    step = 100
    for start in range(0, draws, step):
        batch = min(step, draws - start)
        g = rng.standard_normal((batch, count, dimensions)) / np.sqrt(total)[:, None]
        variances = rng.chisquare(dimensions * freedom, (batch, count)) / (freedom * total)
        inner = g @ g.transpose(0, 2, 1)
        norms = np.einsum("brr->br", inner)
        squares = np.maximum(norms[:, :, None] + norms[:, None, :] - 2 * inner, 0.0)
        picked = np.take_along_axis(_ratios(squares, variances), order[None], axis=2)
        largest[start : start + batch] = picked.max(axis=(1, 2))
    return largest
