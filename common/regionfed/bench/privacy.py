"""What the noise of a benchmark run promises, by the honest accountant and by the paper's formula."""

from __future__ import annotations

import math

from pydantic import Field

from regionfed.bench.federation import Federation
from regionfed.privacy.accountant import epsilon
from regionfed.privacy.paper import PAPER_LABEL, paper_formula
from regionfed.run.scores import Record


class Promise(Record):
    """Epsilon of a whole run for one client's data."""

    mode: str = Field(description="`privacy.mode`.")
    noise_multiplier: float = Field(description="sigma.")
    clipping_norm: float = Field(description="C.")
    delta: float = Field(description="Delta at which epsilon is stated.")
    participations: int = Field(description="Most rounds that one client took part in.")
    epsilon: float = Field(description="Honest accountant, no amplification by sampling.")
    published_form: float = Field(description=PAPER_LABEL)


def promise(federation: Federation) -> Promise | None:
    """The promise of the run, or None without privacy.

    Mode 'client' noises a sum of clipped updates (sensitivity C). Mode 'paper' clips the mean: one
    client can move it by 2C, so its multiplier counts half. Cohorts are drawn with a fixed size
    and are known to the coordinator, so nothing is amplified.
    """
    config = federation.config
    sigma = config.privacy.noise_multiplier
    if config.privacy.mode == "off" or sigma is None:
        return None
    taken: dict[tuple[str, str], int] = {}
    rounds, asked = config.run.rounds, 0
    for number in range(1, rounds + 1):
        for region in federation.population.regions:
            for member in federation.cohort(region, number):
                key = (member.region, member.client)
                taken[key] = taken.get(key, 0) + 1
                asked += 1
    most = max(taken.values())
    delta = config.privacy.budget.delta
    everyone = len(federation.population.everyone())
    return Promise(
        mode=config.privacy.mode,
        noise_multiplier=sigma,
        clipping_norm=config.privacy.clipping_norm,
        delta=delta,
        participations=most,
        epsilon=epsilon(
            noise_multiplier=sigma if config.privacy.mode == "client" else sigma / 2.0,
            rounds=rounds,
            delta=delta,
            participations=most,
        ),
        published_form=paper_formula(
            noise_multiplier=sigma,
            sample_rate=min(1.0, math.fsum([asked / rounds / everyone])),
            rounds=rounds,
            delta=delta,
        ),
    )
