"""Tell the operator before the run whether private training can be useful (privacy section 4).

The noise-to-signal ratio of a whole run is R_T = sigma*sqrt(d)/(n*sqrt(T)): d trained parameters,
n clients per region and round, T rounds. At most 0.1 is nearly lossless, at most 0.3 useful.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from regionfed.errors import PrivacyError
from regionfed.privacy.budget import (
    DEFAULT_DELTA,
    DEFAULT_EPSILON,
    DEFAULT_PARTICIPATIONS,
    DEFAULT_ROUNDS,
    Allocation,
    split_budget,
    training_multiplier,
)
from regionfed.privacy.events import TrainingUpdate
from regionfed.privacy.gdp import mu_to_epsilon
from regionfed.privacy.matrix_factorisation import prefix_sum_rmse

USEFUL = 0.3
NEARLY_LOSSLESS = 0.1
BANDS = 10

# Smaller things to train instead of a full model, largest first, by their usual size.
ALTERNATIVES = (
    ("LoRA of rank 8 on a T5-small", 295_000),
    ("LoRA of rank 4 on a T5-small", 147_000),
    ("only a head on a frozen encoder", 4_100),
)


def noise_to_signal(
    *, noise_multiplier: float, dimension: int, clients_per_round: int, rounds: int
) -> float:
    """R_T; with `rounds = 1` the ratio of one round."""
    if min(dimension, clients_per_round, rounds) < 1:
        raise PrivacyError(
            f"dimension {dimension}, clients per round {clients_per_round} and rounds {rounds} "
            "must all be at least 1"
        )
    return noise_multiplier * math.sqrt(dimension) / (clients_per_round * math.sqrt(rounds))


def clients_needed(
    *, noise_multiplier: float, dimension: int, rounds: int, ratio: float = USEFUL
) -> int:
    """Clients per region and round at which R_T is at most `ratio`."""
    one = noise_to_signal(
        noise_multiplier=noise_multiplier, dimension=dimension, clients_per_round=1, rounds=rounds
    )
    # A hair below, so that a quotient that is a whole number up to rounding stays that number.
    return max(1, math.ceil(one / ratio * (1.0 - 1e-12)))


@dataclass(frozen=True)
class Proposal:
    """Something that would make the run useful, in words, with what it would then be."""

    change: str
    ratio: float
    helps: bool


@dataclass(frozen=True)
class Plan:
    """The verdict on a run before it starts.

    `allocations` are the noise multipliers of all releases; `proposals` is empty when the run is
    useful as it is.
    """

    dimension: int
    clients_per_round: int
    rounds: int
    epsilon: float
    delta: float
    noise_multiplier: float
    ratio_one_round: float
    ratio: float
    useful: bool
    verdict: str
    clients_for_useful: int
    clients_for_nearly_lossless: int
    allocations: tuple[Allocation, ...]
    proposals: tuple[Proposal, ...]


def plan(
    *,
    dimension: int,
    clients_per_round: int,
    rounds: int = DEFAULT_ROUNDS,
    epsilon: float = DEFAULT_EPSILON,
    delta: float = DEFAULT_DELTA,
    participations: int = DEFAULT_PARTICIPATIONS,
    clients: int | None = None,
    unused: Collection[str] = (),
    noise_multiplier: float | None = None,
) -> Plan:
    """Judge a run in mode `client` for one region.

    `clients` is how many the region has; when given, the rounds that their participations can
    fill are what counts. `unused` names releases that this run does not make, and
    `noise_multiplier` replaces the one that the budget gives the training update. Raises
    PrivacyError for values that no run can have.
    """
    if clients is not None:
        if clients < clients_per_round:
            raise PrivacyError(
                f"a region of {clients} clients cannot send {clients_per_round} per round; "
                "lower the cohort or enrol more clients"
            )
        rounds = min(rounds, participations * clients // clients_per_round)
    participations = min(participations, rounds)
    allocations = split_budget(
        epsilon=epsilon, delta=delta, participations=participations, unused=unused
    )
    sigma = noise_multiplier or training_multiplier(allocations)

    def ratio_of(d: int, t: int = rounds) -> float:
        return noise_to_signal(
            noise_multiplier=sigma, dimension=d, clients_per_round=clients_per_round, rounds=t
        )

    ratio = ratio_of(dimension)
    needed = clients_needed(noise_multiplier=sigma, dimension=dimension, rounds=rounds)
    proposals: list[Proposal] = []
    if ratio > USEFUL:
        for name, size in ALTERNATIVES:
            if size < dimension:
                enough = clients_needed(noise_multiplier=sigma, dimension=size, rounds=rounds)
                change = f"train {name} (useful from {enough:,} clients per region and round)"
                proposals.append(Proposal(change, ratio_of(size), ratio_of(size) <= USEFUL))
        better = _correlated_gain(rounds, participations)
        if better < 1.0:
            change = f"mode client-mf with participations at least {BANDS} rounds apart"
            proposals.append(Proposal(change, ratio * better, ratio * better <= USEFUL))
        change = f"{needed:,} clients per region and round instead of {clients_per_round:,}"
        proposals.append(Proposal(change, USEFUL, True))
        larger = _epsilon_for(ratio, sigma, allocations, delta)
        words = f"a budget of epsilon = {larger:.3g} instead of {epsilon:g}"
        if larger > 10.0:
            words += ", which protects next to nothing"
        proposals.append(Proposal(words, USEFUL, True))
    return Plan(
        dimension=dimension,
        clients_per_round=clients_per_round,
        rounds=rounds,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=sigma,
        ratio_one_round=ratio_of(dimension, 1),
        ratio=ratio,
        useful=ratio <= USEFUL,
        verdict=_verdict(ratio),
        clients_for_useful=needed,
        clients_for_nearly_lossless=clients_needed(
            noise_multiplier=sigma, dimension=dimension, rounds=rounds, ratio=NEARLY_LOSSLESS
        ),
        allocations=tuple(allocations),
        proposals=tuple(proposals),
    )


def _verdict(ratio: float) -> str:
    if ratio <= NEARLY_LOSSLESS:
        return f"useful: R_T = {ratio:.3g}, the noise will hardly be felt"
    if ratio <= USEFUL:
        return f"useful: R_T = {ratio:.3g}, the noise costs some accuracy"
    return (
        f"not useful: R_T = {ratio:.3g}, above {USEFUL}; the noise drowns the updates and the "
        "model will not learn"
    )


def _correlated_gain(rounds: int, participations: int) -> float:
    """Prefix-sum error of client-mf over that of client at equal epsilon; 1 if it cannot run."""
    if rounds <= BANDS or (participations - 1) * BANDS >= rounds:
        return 1.0
    errors = [
        prefix_sum_rmse(rounds=rounds, bands=bands, participations=participations, separation=BANDS)
        for bands in (BANDS, 1)
    ]
    return errors[0] / errors[1]


def _epsilon_for(ratio: float, sigma: float, allocations: list[Allocation], delta: float) -> float:
    wanted = sigma * USEFUL / ratio
    training = next(a for a in allocations if a.release == TrainingUpdate.kind)
    return mu_to_epsilon(math.sqrt(training.uses / training.share) / wanted, delta)
