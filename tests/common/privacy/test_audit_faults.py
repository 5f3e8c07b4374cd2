"""The command `audit` at its full size on the real pipeline, sound and with each fault put in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import regionfed.privacy.release_pipeline as pipeline
import regionfed.secagg.encoding as encoding
from regionfed.cli.privacy import AuditFailed, app
from regionfed.privacy.mechanisms import integer_gaussian, noised_mean
from regionfed.privacy.noise_source import NoiseSource

THEORY = {1.0: 4.377, 2.0: 1.993, 4.0: 0.926}
Patch = Callable[[pytest.MonkeyPatch], None]


def audited(sigma: float, mode: str = "client") -> tuple[dict[str, Any], BaseException | None]:
    result = CliRunner().invoke(
        app, ["audit", "--noise-multiplier", str(sigma), "--mode", mode, "--json"]
    )
    return json.loads(result.stdout), result.exception


def _left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline, "integer_gaussian", lambda size, **_: np.zeros(size, dtype=np.int64))


def _halved(patch: pytest.MonkeyPatch) -> None:
    def half(size: int, *, noise_multiplier: float, **others: Any) -> np.ndarray:
        return integer_gaussian(size, noise_multiplier=noise_multiplier / 2, **others)

    patch.setattr(pipeline, "integer_gaussian", half)


def _reused(patch: pytest.MonkeyPatch) -> None:
    def again(size: int, **others: Any) -> np.ndarray:
        return integer_gaussian(size, **others, source=NoiseSource(b"the same key" + bytes(20)))

    patch.setattr(pipeline, "integer_gaussian", again)


def _not_clipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoding, "l2_norm", lambda values: 0.0)


def _divided_twice(patch: pytest.MonkeyPatch) -> None:
    def twice(steps: Any, noise: Any, *, scale: float, expected_cohort: int) -> np.ndarray:
        mean = noised_mean(steps, noise, scale=scale, expected_cohort=expected_cohort)
        return mean / np.float32(expected_cohort)

    patch.setattr(pipeline, "noised_mean", twice)


FAULTS: dict[str, tuple[Patch, str]] = {
    "noise left out": (_left_out, "left out, lowered or divided"),
    "noise halved": (_halved, "left out, lowered or divided"),
    "noise reused": (_reused, "it was reused"),
    "clip left out": (_not_clipped, "moves the release more than is accounted"),
    "mean divided twice": (_divided_twice, "left out, lowered or divided"),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
def test_a_sound_release_passes(sigma: float) -> None:
    # One sound audit in a hundred passes the 99% bound by chance, so it may be repeated once.
    answer, error = audited(sigma)
    if not answer["passed"]:
        answer, error = audited(sigma)
    assert answer["passed"], answer["findings"]
    assert error is None
    assert answer["theory_epsilon"] == pytest.approx(THEORY[sigma], abs=5e-4)
    assert answer["lower_epsilon"] <= answer["theory_epsilon"]
    assert abs(answer["held_out_ratio"] - 1) <= 0.05
    assert abs(answer["correlation"]) < 0.05
    print(f"sigma {sigma:g}: {answer}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_each_fault_in_it_is_found(
    monkeypatch: pytest.MonkeyPatch, fault: str, sigma: float
) -> None:
    inject, finding = FAULTS[fault]
    inject(monkeypatch)
    answer, error = audited(sigma)
    assert isinstance(error, AuditFailed), answer
    assert any(finding in found for found in answer["findings"]), answer
    print(f"{fault}, sigma {sigma:g}: {answer['findings']}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["client-strict", "client-mf"])
def test_the_other_modes_pass_too(mode: str) -> None:
    answer, _ = audited(2.0, mode)
    if not answer["passed"]:
        answer, _ = audited(2.0, mode)
    assert answer["passed"], answer["findings"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_forgotten_shares_of_the_clients_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "noise_share", lambda size, **_: np.zeros(size, dtype=np.int64))
    answer, error = audited(2.0, "client-strict")
    assert isinstance(error, AuditFailed)
    assert any("left out" in found for found in answer["findings"])
