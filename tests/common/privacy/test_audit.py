"""The audit passes the real pipeline and finds every fault that is put into it."""

from __future__ import annotations

import numpy as np
import pytest

from regionfed.errors import PrivacyError, UpdateError
from regionfed.privacy.audit import AuditReport, Pipeline, audit
from regionfed.privacy.mechanisms import add_gaussian, clip
from regionfed.privacy.modes import Mode
from regionfed.privacy.noise_source import NoiseSource
from regionfed.privacy.release_pipeline import release_pipeline

DIMENSION, CANARIES, HELD_OUT = 4_000, 200, 4_000


def run(pipeline: Pipeline, sigma: float = 2.0, **changes: object) -> AuditReport:
    settings: dict[str, object] = {
        "noise_multiplier": sigma,
        "clip_norm": 0.5,
        "expected_cohort": CANARIES,
        "dimension": DIMENSION,
        "canaries": CANARIES,
        "held_out": HELD_OUT,
        "seed": 11,
    }
    return audit(pipeline, **{**settings, **changes})


def real(mode: Mode = Mode.CLIENT, sigma: float = 2.0, **changes: object) -> Pipeline:
    settings: dict[str, object] = {
        "dimension": DIMENSION,
        "noise_multiplier": sigma,
        "clip_norm": 0.5,
        "expected_cohort": CANARIES,
    }
    return release_pipeline(mode, **{**settings, **changes})


def plain(
    *, source: NoiseSource | None = None, clipped: bool = True, noise: float = 2.0, cohort: int = 1
) -> Pipeline:
    """A reference pipeline with a seeded source, so that a fault is the only difference."""
    source = source or NoiseSource(b"audit" + bytes(27))

    def release(updates: np.ndarray) -> np.ndarray:
        total = sum(clip(u, 0.5).vector if clipped else u for u in updates)
        if noise:
            total = add_gaussian(total, noise_multiplier=noise, clip_norm=0.5, source=source)
        return total / np.float32(CANARIES * cohort)

    return release


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
def test_a_sound_pipeline_passes(sigma: float) -> None:
    report = run(plain(noise=sigma), sigma)
    assert report.passed, report.findings
    assert report.held_out_ratio == pytest.approx(1.0, abs=0.05)
    assert abs(report.mean_shift - 1.0) < 5 * sigma / np.sqrt(CANARIES)
    assert abs(report.correlation) < 0.05
    assert report.lower_epsilon < report.measured_epsilon


@pytest.mark.parametrize(("sigma", "theory"), [(1.0, 4.377), (2.0, 1.993), (4.0, 0.926)])
def test_theory(sigma: float, theory: float) -> None:
    assert run(plain(noise=sigma), sigma).theory_epsilon == pytest.approx(theory, abs=5e-4)


@pytest.mark.parametrize("mode", [Mode.CLIENT, Mode.CLIENT_STRICT])
def test_the_real_pipeline_has_the_noise_it_promises(mode: Mode) -> None:
    # Its noise is fresh from the operating system each time: tolerances of five deviations.
    report = run(real(mode))
    assert report.held_out_ratio == pytest.approx(1.0, abs=0.08)
    assert abs(report.correlation) < 0.08
    assert abs(report.mean_shift - 1.0) < 5 * 2.0 / np.sqrt(CANARIES)


def faulty(fault: str) -> Pipeline:
    if fault == "noise left out":
        return plain(noise=0.0)
    if fault == "noise halved":
        return plain(noise=1.0)
    if fault == "clip left out":
        return plain(clipped=False)
    if fault == "mean divided twice":
        return plain(cohort=CANARIES)

    def reused(updates: np.ndarray) -> np.ndarray:
        return plain(source=NoiseSource(b"reused" + bytes(26)))(updates)

    return reused


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ("noise left out", "left out, lowered or divided"),
        ("noise halved", "left out, lowered or divided"),
        ("clip left out", "moves the release more than is accounted"),
        ("mean divided twice", "left out, lowered or divided"),
        ("noise reused", "it was reused"),
    ],
)
def test_faults_are_found(fault: str, finding: str) -> None:
    report = run(faulty(fault))
    assert not report.passed
    assert any(finding in text for text in report.findings)


def test_reuse_is_the_only_finding_when_noise_is_reused() -> None:
    assert len(run(faulty("noise reused")).findings) == 1
    assert run(faulty("noise reused"), correlated_noise=True).passed


def test_bad_questions_and_bad_answers_are_refused() -> None:
    with pytest.raises(PrivacyError, match="at least 50 canaries"):
        run(plain(), canaries=10)
    with pytest.raises(UpdateError, match="returned shape"):
        run(lambda updates: np.zeros(3, dtype=np.float32))
    with pytest.raises(UpdateError, match="NaN"):
        run(lambda updates: np.full(DIMENSION, np.nan, dtype=np.float32))
    with pytest.raises(PrivacyError, match="no client-level release"):
        real(Mode.PAPER)
    with pytest.raises(PrivacyError, match="client-mf and to no other"):
        real(Mode.CLIENT_MF)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "measured"), [(1.0, 4.23), (2.0, 1.92), (4.0, 0.86)])
def test_full_size_on_the_real_pipeline(sigma: float, measured: float) -> None:
    size = {"dimension": 20_000, "expected_cohort": 500, "clip_norm": 1.0}
    reports = [
        audit(
            release_pipeline(Mode.CLIENT, noise_multiplier=sigma, **size),
            noise_multiplier=sigma,
            **size,
        )
        for _ in range(5)
    ]
    # The epsilon of one audit spreads by about 0.25; the mean of five by half of that.
    assert np.mean([r.measured_epsilon for r in reports]) == pytest.approx(measured, abs=0.45)
    assert sum(not r.passed for r in reports) <= 1
