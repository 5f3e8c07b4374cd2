"""An empirical audit of the release: does the pipeline give the privacy that is accounted?

Random canary directions are sent as updates ten times too long; as many others, and more, are
held out (after Andrew et al. 2023). A canary's projection on the release has mean 1 (in units of
C) if the clip works, a held-out one has mean 0, and both spread by sigma. Mean shift over pooled
deviation estimates mu, hence epsilon. A second release with fresh canaries tells whether noise is
reused. The audit can find faults; passing is no proof.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regionfed.errors import PrivacyError, UpdateError
from regionfed.privacy.gdp import mu_to_epsilon
from regionfed.privacy.mechanisms import Vector, check_clip_norm, check_noise_multiplier

# Takes the clients' raw updates, shape (clients, d); returns the noised mean, shape (d,).
Pipeline = Callable[[npt.NDArray[np.float32]], Vector]

CANARY_LENGTH = 10.0
MAX_DEVIATION_ERROR = 0.05
MAX_CORRELATION = 0.05
_Z99 = 2.3263478740408408
_BATCH = 256


@dataclass(frozen=True)
class AuditReport:
    """What was measured, what theory says, and every finding in words; none means it passed.

    Epsilons are of one release without sampling. `held_out_ratio` is the held-out deviation over
    the expected one, `correlation` that of held-out projections between two releases.
    """

    noise_multiplier: float
    delta: float
    theory_epsilon: float
    measured_epsilon: float
    lower_epsilon: float
    mean_shift: float
    held_out_ratio: float
    correlation: float
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.findings


@dataclass(frozen=True)
class _Projections:
    """Projections of the releases, in units of the clipping norm on the sum."""

    inserted: npt.NDArray[np.float64]
    held_out: npt.NDArray[np.float64]


def audit(
    pipeline: Pipeline,
    *,
    noise_multiplier: float,
    clip_norm: float,
    expected_cohort: int,
    dimension: int = 20_000,
    canaries: int = 500,
    held_out: int = 6_400,
    delta: float = 1e-5,
    seed: int | None = None,
    correlated_noise: bool = False,
) -> AuditReport:
    """Drive `pipeline` (clip, encode, sum, noise, divide) twice and judge what comes out.

    `expected_cohort` is the public number that the pipeline divides by. `seed` fixes the
    directions, not the pipeline's noise. `correlated_noise` skips the check on reuse, for
    client-mf, whose rounds are correlated on purpose. Raises PrivacyError when there are too few
    canaries or dimensions for the statistics to mean anything.
    """
    check_noise_multiplier(noise_multiplier)
    check_clip_norm(clip_norm)
    if canaries < 50 or held_out < 1_000 or dimension < 4 * canaries:
        raise PrivacyError(
            f"an audit needs at least 50 canaries, 1000 held-out directions and 4 dimensions per "
            f"canary; got {canaries}, {held_out} and dimension {dimension}"
        )
    shown = _project(
        pipeline,
        clip_norm=clip_norm,
        expected_cohort=expected_cohort,
        dimension=dimension,
        canaries=canaries,
        held_out=held_out,
        rng=np.random.default_rng(seed),
    )
    inserted, outside = shown.inserted, shown.held_out[0]
    shift = float(inserted.mean() - outside.mean())
    pooled = _pooled_std(inserted, outside)
    mu = max(0.0, shift) / pooled if pooled > 0.0 else math.inf
    error = math.sqrt(
        1.0 / canaries + 1.0 / held_out + min(mu, 1e6) ** 2 / (2.0 * (canaries + held_out - 2))
    )
    # The canaries themselves spread over every direction: K unit vectors add K/d of variance.
    expected = math.sqrt(noise_multiplier**2 + canaries / dimension)
    report = AuditReport(
        noise_multiplier=noise_multiplier,
        delta=delta,
        theory_epsilon=mu_to_epsilon(1.0 / noise_multiplier, delta),
        measured_epsilon=mu_to_epsilon(mu, delta),
        lower_epsilon=mu_to_epsilon(max(0.0, mu - _Z99 * error), delta),
        mean_shift=shift,
        held_out_ratio=float(outside.std(ddof=1)) / expected,
        correlation=_correlation(outside, shown.held_out[1]),
        findings=(),
    )
    return _judged(report, correlated_noise=correlated_noise)


def _project(
    pipeline: Pipeline,
    *,
    clip_norm: float,
    expected_cohort: int,
    dimension: int,
    canaries: int,
    held_out: int,
    rng: np.random.Generator,
) -> _Projections:
    releases: list[npt.NDArray[np.float64]] = []
    inserted = np.empty(canaries)
    for number in range(2):
        directions = _directions(rng, canaries, dimension)
        released = pipeline(directions * np.float32(CANARY_LENGTH * clip_norm))
        if released.shape != (dimension,):
            raise UpdateError(
                f"the audited pipeline returned shape {released.shape}, expected ({dimension},)"
            )
        release = released.astype(np.float64) * (expected_cohort / clip_norm)
        if not np.all(np.isfinite(release)):
            raise UpdateError("the audited pipeline returned NaN or infinite values")
        releases.append(release)
        if number == 0:
            inserted = directions @ release
    stacked = np.stack(releases, axis=1).astype(np.float32)
    outside = np.concatenate(
        [
            _directions(rng, min(_BATCH, held_out - start), dimension) @ stacked
            for start in range(0, held_out, _BATCH)
        ]
    ).astype(np.float64)
    return _Projections(inserted=inserted, held_out=outside.T)


def _directions(rng: np.random.Generator, count: int, dimension: int) -> npt.NDArray[np.float32]:
    rows = rng.standard_normal((count, dimension), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _pooled_std(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    total = float(first.var(ddof=1)) * (first.size - 1) + float(second.var(ddof=1)) * (
        second.size - 1
    )
    return math.sqrt(total / (first.size + second.size - 2))


def _correlation(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    if first.std() == 0.0 or second.std() == 0.0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _judged(report: AuditReport, *, correlated_noise: bool) -> AuditReport:
    findings = []
    if report.lower_epsilon > report.theory_epsilon:
        findings.append(
            f"one client moves the release more than is accounted: epsilon is at least "
            f"{report.lower_epsilon:.3f} (99%), theory says {report.theory_epsilon:.3f}; "
            "check the clip on the client and the noise"
        )
    if abs(report.held_out_ratio - 1.0) > MAX_DEVIATION_ERROR:
        findings.append(
            f"the noise is {report.held_out_ratio:.3f} times what sigma*C asks for; below 1 it was "
            "left out, lowered or divided once too often, above 1 something else was added"
        )
    if not correlated_noise and abs(report.correlation) > MAX_CORRELATION:
        findings.append(
            f"the noise of two releases correlates by {report.correlation:.3f}: it was reused"
        )
    return dataclasses.replace(report, findings=tuple(findings))
