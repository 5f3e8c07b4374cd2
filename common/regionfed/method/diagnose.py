"""Is a global model enough? A verdict per region before any commitment (algorithm section 4).

A few gradient-only rounds give each region's updates by disjoint groups of its clients. A region
is called in conflict only if it differs from the majority by more than its clients' scatter
explains (`dispersion`), and by enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from regionfed.errors import ConfigError
from regionfed.method.conflict import ConflictMatrix, calibrate_mu, conflict_matrix, noise_floor
from regionfed.method.dispersion import Dispersion, RegionUnits, disperse, lower_median
from regionfed.method.router import RegionFacts, ResidualRouter, Router, RouterState
from regionfed.method.vectors import Matrix, distance, weighted_mean


class Finding(StrEnum):
    """How a region stands to the majority of regions."""

    ALIGNED = "aligned"
    MILD = "mild"
    SEVERE = "severe"


@dataclass(frozen=True)
class Thresholds:
    """When a difference counts.

    `level`: probability that any of R alike regions is called in conflict by chance.
    `negligible` and `severe` are relative gaps, the distance of a region's gradient from the
    majority's over their root mean square length: for equal lengths a gap x is a cosine of
    1 - x^2/2, so 0.8 is 0.68 and 1.1 is 0.395.

    The defaults are calibrated on local-training updates of the built-in data after six warm-up
    rounds: regions that mean the same but sell other goods and ask in other proportions reach
    0.7, half of the ambiguous words in conflict gives 0.9, all of them 1.2 to 1.4
    (`docs/diagnose.md`).
    """

    level: float = 0.05
    negligible: float = 0.8
    severe: float = 1.1

    def __post_init__(self) -> None:
        if not (0 < self.level < 1 and 0 <= self.negligible < self.severe):
            raise ConfigError(
                f"diagnosis thresholds level {self.level}, negligible {self.negligible}, severe "
                f"{self.severe}: need 0 < level < 1 and 0 <= negligible < severe"
            )


@dataclass(frozen=True)
class RegionDiagnosis:
    """The verdict on one region and the numbers behind it.

    `d` is its conflict d_r and `floor` what chance alone makes of it, in update units;
    `dispersion_ratio` is between- over within-region dispersion (near 1 by chance) with its
    family-wise `p_value`; `relative_gap` is the size of the difference with chance subtracted,
    `detectable_gap` the size from which these data would have shown one (inf: never);
    `divergence` is h_r in nats. `strategy` and `reason` are the router's.
    """

    name: str
    finding: Finding
    d: float
    floor: float
    dispersion_ratio: float
    p_value: float
    relative_gap: float
    detectable_gap: float
    divergence: float
    strategy: str
    reason: str

    def explain(self) -> str:
        """Say in one or two sentences what was found and on what numbers."""
        numbers = (
            f"d = {self.d:.4g}, noise floor {self.floor:.4g}, dispersion ratio "
            f"{self.dispersion_ratio:.3g} (p = {self.p_value:.3g}), relative gap "
            f"{self.relative_gap:.2g}"
        )
        text = {
            Finding.ALIGNED: "aligned: a global model is enough",
            Finding.MILD: "mild: the region differs from the majority, and shares most of it",
            Finding.SEVERE: "severe: the region pulls elsewhere, one model cannot serve it",
        }[self.finding]
        if self.finding is not Finding.ALIGNED:
            blind = ""
        elif math.isinf(self.detectable_gap):
            text = "no conflict shown"
            blind = (
                " These data could not have shown a conflict of any size: give more clients or "
                "more disjoint groups per region."
            )
        else:
            blind = (
                f" These data show only relative gaps above {self.detectable_gap:.2g}: to see "
                "smaller ones, give more clients or more disjoint groups per region."
            )
        return f"{text} ({numbers}).{blind} Routed to {self.strategy}: {self.reason}."


@dataclass(frozen=True)
class Diagnosis:
    """All regions, in the order given, and who disagrees with whom."""

    regions: tuple[RegionDiagnosis, ...]
    matrix: ConflictMatrix
    mu: float


def diagnose(
    regions: Sequence[RegionUnits],
    *,
    divergences: Mapping[str, float] | None = None,
    sizes: Mapping[str, float] | None = None,
    router: Router | None = None,
    thresholds: Thresholds | None = None,
    draws: int = 999,
    seed: int = 0,
) -> Diagnosis:
    """Judge R >= 2 regions by their units' updates at one model, all regions weighing the same.

    `divergences` are h_r in nats by region name (0 where not given), `sizes` the n_r (equal where
    not given); both serve the router only, `ResidualRouter` unless given. `draws` is the number
    of simulated federations behind the p-values; it must resolve the level.

    Raises `DataError` or `UpdateError` for regions that cannot be compared, `ConfigError` for
    too few draws.
    """
    limits = thresholds or Thresholds()
    if 1.0 / (draws + 1) > limits.level:
        raise ConfigError(
            f"{draws} draws cannot resolve level {limits.level}: give at least "
            f"{math.ceil(1 / limits.level)}"
        )
    found = disperse(regions, draws=draws, seed=seed)
    vectors = list(found.means.astype(np.float32))
    centre = weighted_mean(vectors)
    conflicts = [distance(vector, centre) for vector in vectors]
    floors = noise_floor(list(found.variances))
    mu = calibrate_mu(conflicts)
    relative = _relative_gaps(found.gaps, found=found)
    # F is near 1 + gap^2 / (V_r + V_k), so the critical F translates into a gap.
    critical = float(np.quantile(found.null, 1 - limits.level, method="higher"))
    chance = found.variances[:, None] + found.variances[None, :]
    detectable = _relative_gaps((critical - 1) * chance, found=found)
    n = {region.name: (sizes or {}).get(region.name, 1.0) for region in regions}
    mean_n = sum(n.values()) / len(regions)
    chosen_router = ResidualRouter() if router is None else router
    verdicts = []
    for index, region in enumerate(regions):
        p, gap = float(found.p_values[index]), float(relative[index])
        finding = _judge(p, gap, limits=limits)
        h = (divergences or {}).get(region.name, 0.0)
        d, floor = conflicts[index], float(floors[index])
        # An aligned region's d may be lifted by others that pull the mean: what counts for
        # routing is that the region itself does not stand out. Nor does the router, which judges
        # by d alone, overrule the test where it found one.
        d_routed = min(d, floor) if finding is Finding.ALIGNED else max(d, 2 * floor)
        choice = chosen_router.choose(
            RegionFacts(d=d_routed, mu=mu, h=h, size=n[region.name], mean_size=mean_n, floor=floor),
            RouterState(),
            round_=1,
        )
        verdicts.append(
            RegionDiagnosis(
                name=region.name,
                finding=finding,
                d=d,
                floor=floor,
                dispersion_ratio=float(found.ratios[index]),
                p_value=p,
                relative_gap=gap,
                detectable_gap=float(detectable[index]),
                divergence=h,
                strategy=choice.strategy,
                reason=choice.reason,
            )
        )
    return Diagnosis(regions=tuple(verdicts), matrix=conflict_matrix(vectors), mu=mu)


def _judge(p_value: float, gap: float, *, limits: Thresholds) -> Finding:
    if p_value > limits.level or gap < limits.negligible:
        return Finding.ALIGNED
    return Finding.SEVERE if gap >= limits.severe else Finding.MILD


def _relative_gaps(squares: Matrix, *, found: Dispersion) -> Matrix:
    """Lower median over the other regions of a gap over the root mean square length of both.

    `squares` (R, R) are squared gaps. Where noise hides the lengths the ratio is inf.
    """
    energy = np.maximum(np.einsum("ij,ij->i", found.means, found.means) - found.variances, 0.0)
    shared = (energy[:, None] + energy[None, :]) / 2
    positive = np.maximum(squares, 0.0)
    hidden = np.where(positive > 0, np.inf, 0.0)
    relative = np.sqrt(np.divide(positive, shared, out=hidden, where=shared > 0))
    count = len(squares)
    return lower_median(relative[~np.eye(count, dtype=bool)].reshape(count, count - 1))
