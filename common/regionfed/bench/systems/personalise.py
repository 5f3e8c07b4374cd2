"""The clients' part of RegionFed's personalisation, and the region's verdict on it."""

from __future__ import annotations

import numpy as np

from regionfed.bench.federation import Federation
from regionfed.bench.scoring import region_losses
from regionfed.errors import ConfigError
from regionfed.method.exact import ExactMean
from regionfed.method.rho import RhoResult, RhoSearch, check_fixed
from regionfed.method.strategies import ClientWork
from regionfed.method.vectors import Vector
from regionfed.training.gradient import multi_step_gradient


def local_displacement(federation: Federation, region: str, *, base: Vector, number: int) -> Vector:
    """Mean over the cohort of start minus end of local training from `base` (Interp)."""
    mean = ExactMean(federation.size)
    cohort = federation.cohort(region, number)
    salt = (ClientWork.LOCAL_TRAINING.value,)
    for member, result in federation.train_all(cohort, start=base, number=number, salt=salt):
        mean.add(result.update, _weight(federation, member.examples))
    return mean.mean()


def lookahead_gradient(federation: Federation, region: str, *, base: Vector, number: int) -> Vector:
    """Mean over the cohort of the mean of K gradients from `base` (Meta)."""
    meta = federation.config.method.meta
    training = federation.training.model_copy(update={"learning_rate": meta.learning_rate})
    mean = ExactMean(federation.size)
    for member in federation.cohort(region, number):
        found = multi_step_gradient(
            federation.population.model,
            federation.population.flat,
            member.train,
            training,
            at=base,
            steps=meta.steps,
            seed=federation.seed(member, number, ClientWork.LOOKAHEAD_GRADIENT.value),
        )
        gradient = found.gradient / np.float32(meta.steps)
        mean.add(gradient, _weight(federation, member.examples))
    return mean.mean()


def residual_verdict(
    federation: Federation, region: str, *, base: Vector, part: Vector
) -> RhoResult:
    """Whether base + part beats base on the region's validation loss."""
    losses = region_losses(federation, region, base=base, direction=part, rhos=(0.0, 1.0))
    return check_fixed(dict(zip((0.0, 1.0), losses, strict=True)))


def searched(federation: Federation, region: str, *, base: Vector, direction: Vector) -> RhoResult:
    """The search for rho along `direction` (algorithm section 3.7).

    Raises `ConfigError` under differential privacy, where it would be an un-noised query.
    """
    if federation.config.privacy.mode != "off":
        raise ConfigError(
            "the search for rho asks for un-noised validation losses, which privacy.mode = "
            f"{federation.config.privacy.mode!r} forbids; compare 'regionfed-residual' there"
        )
    config = federation.config.method.rho
    search = RhoSearch(lo=config.low, hi=config.high, tol=config.tolerance, points=config.points)
    while not search.done:
        rhos = search.pending()
        losses = region_losses(federation, region, base=base, direction=direction, rhos=rhos)
        search.update(dict(zip(rhos, losses, strict=True)))
    return search.result()


def _weight(federation: Federation, examples: int) -> int:
    return examples if federation.config.coordinator.client_weights == "examples" else 1
