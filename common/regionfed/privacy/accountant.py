"""Replays events into epsilon: dp_accounting's PLD, with RDP beside it.

Neighbours differ by adding or removing one unit, in both accountants: dp_accounting's RDP takes
the multiplier relative to the sensitivity under the relation it is given and its PLD relative to
add/remove, so any other relation would make the two disagree silently (privacy section 7).
Sampling a fixed number of clients earns no amplification here.

Without amplification one client's whole cost is `mu^2 = sum of 1/sigma^2` over the rounds that it
can have taken part in. With at most k participations these are the k dearest rounds; releases of
one round, retries included, count together, because one participation exposes a client to all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from regionfed.errors import PrivacyError
from regionfed.privacy import gdp
from regionfed.privacy.dp_library import pld_epsilon, rdp_epsilon, sampled_multiplier
from regionfed.privacy.events import (
    Event,
    ExampleLevelTraining,
    Noise,
    NoisedRelease,
    RawQuery,
    RegionalMeanRelease,
    Sampling,
    Unit,
    require_known,
)
from regionfed.privacy.mechanisms import check_noise_multiplier

# A Gaussian release: (noise multiplier, sampling rate, how often).
Step = tuple[float, float, int]


@dataclass(frozen=True)
class Cost:
    """What events cost one unit without amplification, and whether Skellam noise is among them."""

    mu_squared: float
    skellam: bool = False

    def epsilon(self, delta: float) -> float:
        """The binding epsilon: exact for Gaussian noise, the RDP bound once Skellam is used."""
        mu = math.sqrt(self.mu_squared)
        return gdp.rdp_to_epsilon(mu, delta) if self.skellam else gdp.mu_to_epsilon(mu, delta)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.mu_squared + other.mu_squared, self.skellam or other.skellam)


@dataclass(frozen=True)
class Spent:
    """What a ledger's events cost one unit at `delta`.

    `eps_coordinator` holds against the coordinator, which sees who took part; it is the one that
    budgets are checked against. `eps_pld` and `eps_rdp` are the same composition by
    dp_accounting. `eps_external` holds against everybody else; `external_reason` says whether it
    is amplified.
    """

    unit: Unit
    delta: float
    mu: float
    eps_coordinator: float
    eps_pld: float
    eps_rdp: float
    eps_external: float
    external_reason: str


def _multiplier(event: NoisedRelease, unit: Unit) -> float:
    if isinstance(event, RegionalMeanRelease):
        return event.noise_multiplier if unit is Unit.REGION else event.noise_multiplier / 2.0
    if unit is Unit.REGION:
        raise PrivacyError(
            f"a {event.kind} protects clients and says nothing about a whole region; "
            "account it with unit 'client'"
        )
    return event.noise_multiplier


def unamplified_steps(
    events: Iterable[Event], *, unit: Unit = Unit.CLIENT, max_participations: int | None = None
) -> list[Step]:
    """The Gaussian releases that the most exposed unit can have been part of, none sampled.

    A RawQuery becomes a step of multiplier 0. Example-level events belong to another unit and are
    left to `example_level_epsilon`. Raises PrivacyError for an unknown event.
    """
    if max_participations is not None and max_participations < 1:
        raise PrivacyError(f"max participations = {max_participations} must be at least 1")
    once: list[float] = []
    by_round: dict[int, list[float]] = defaultdict(list)
    for event in events:
        require_known(event)
        if isinstance(event, RawQuery):
            once.append(0.0)
        elif isinstance(event, NoisedRelease):
            multiplier = _multiplier(event, unit)
            # A region joins every round: participation bounds are about clients.
            if event.per_participation and unit is Unit.CLIENT:
                by_round[event.round].append(multiplier)
            else:
                once.append(multiplier)
    dearest = sorted(gdp.compose_multipliers(values) for values in by_round.values())
    counted: dict[float, int] = defaultdict(int)
    for multiplier in [*once, *dearest[:max_participations]]:
        counted[multiplier] += 1
    return [(multiplier, 1.0, count) for multiplier, count in counted.items()]


def cost(
    events: Sequence[Event], *, unit: Unit = Unit.CLIENT, max_participations: int | None = None
) -> Cost:
    """The unamplified cost of `events` to one unit; needs neither scipy nor dp_accounting."""
    steps = unamplified_steps(events, unit=unit, max_participations=max_participations)
    skellam = any(isinstance(e, NoisedRelease) and e.noise is Noise.SKELLAM for e in events)
    if any(multiplier == 0.0 for multiplier, _, _ in steps):
        return Cost(math.inf, skellam)
    return Cost(math.fsum(n / multiplier**2 for multiplier, _, n in steps), skellam)


def _external_steps(
    events: Sequence[Event], unit: Unit, max_participations: int | None
) -> tuple[list[Step] | None, str]:
    """Amplified steps when every sampled round really was secret Poisson sampling, and why not."""
    releases = [e for e in events if isinstance(e, NoisedRelease)]
    sampled = [e for e in releases if e.per_participation]
    if any(isinstance(e, RawQuery) for e in events):
        return None, "an un-noised query ran: no sampling helps"
    if not sampled or any(e.sampling is not Sampling.POISSON for e in sampled):
        return None, "not amplified: cohorts were not drawn by secret Poisson sampling"
    if any(e.noise is not Noise.GAUSSIAN for e in releases):
        return None, "not amplified: only independent Gaussian noise is amplified by sampling"
    if max_participations is not None and max_participations < len({e.round for e in sampled}):
        return None, "not amplified: bounded participation makes later cohorts depend on earlier"
    # Releases of one cohort share one sample, so they are one Gaussian under one sampling.
    groups: dict[tuple[int, int], list[NoisedRelease]] = defaultdict(list)
    for event in sampled:
        groups[event.round, event.attempt].append(event)
    steps: dict[tuple[float, float], int] = defaultdict(int)
    for members in groups.values():
        joint = gdp.compose_multipliers([_multiplier(e, unit) for e in members])
        steps[joint, max(e.sample_rate for e in members)] += 1
    for event in releases:
        if not event.per_participation:
            steps[_multiplier(event, unit), 1.0] += 1
    return [(sigma, rate, n) for (sigma, rate), n in steps.items()], (
        "amplified by secret Poisson sampling"
    )


def spend(
    events: Sequence[Event],
    *,
    delta: float,
    unit: Unit = Unit.CLIENT,
    max_participations: int | None = None,
) -> Spent:
    """Account a region's events for one unit.

    Raises PrivacyError for an unknown event, a bad delta, or when the `privacy` extra is missing.
    """
    if unit is Unit.EXAMPLE:
        return _spend_examples(events, delta=gdp.check_delta(delta))
    total = cost(events, unit=unit, max_participations=max_participations)
    binding = total.epsilon(gdp.check_delta(delta))
    steps = unamplified_steps(events, unit=unit, max_participations=max_participations)
    external, reason = _external_steps(events, unit, max_participations)
    eps_external = binding
    if external is not None:
        eps_external = min(binding, pld_epsilon(external, delta=delta))
    return Spent(
        unit=unit,
        delta=delta,
        mu=math.sqrt(total.mu_squared),
        eps_coordinator=binding,
        eps_pld=pld_epsilon(steps, delta=delta),
        eps_rdp=rdp_epsilon(steps, delta=delta),
        eps_external=eps_external,
        external_reason=reason,
    )


def example_level_steps(events: Iterable[Event]) -> dict[str, list[Step]]:
    """Per client, the Poisson-sampled Gaussian steps of its DP-SGD; other units are left out."""
    steps: dict[str, dict[tuple[float, float], int]] = defaultdict(lambda: defaultdict(int))
    for event in events:
        require_known(event)
        if isinstance(event, ExampleLevelTraining):
            steps[event.client][event.noise_multiplier, event.sample_rate] += event.steps
    return {
        client: [(sigma, rate, count) for (sigma, rate), count in taken.items()]
        for client, taken in steps.items()
    }


def example_level_epsilon(events: Iterable[Event], *, delta: float) -> dict[str, float]:
    """Per client, the epsilon of ONE EXAMPLE under its DP-SGD; never added to client-level."""
    steps = example_level_steps(events)
    return {client: pld_epsilon(taken, delta=delta) for client, taken in steps.items()}


def fits_by_rdp(events: Iterable[Event], *, epsilon: float, delta: float) -> bool:
    """Whether Renyi DP shows that no example costs more than `epsilon`.

    Looser than PLD and far cheaper: what it accepts needs no second look.
    """
    steps = example_level_steps(events).values()
    return all(_rdp(tuple(sorted(taken)), delta) <= epsilon for taken in steps)


@lru_cache(maxsize=1024)
def _rdp(steps: tuple[Step, ...], delta: float) -> float:
    """Remembered: in a simulation many clients have as many rows, and so the same steps."""
    return rdp_epsilon(steps, delta=delta)


def _spend_examples(events: Sequence[Event], *, delta: float) -> Spent:
    """One example of the most exposed client; which rows a step drew stays on the device."""
    steps = example_level_steps(events).values()
    pld = max((pld_epsilon(taken, delta=delta) for taken in steps), default=0.0)
    return Spent(
        unit=Unit.EXAMPLE,
        delta=delta,
        mu=gdp.epsilon_to_mu(pld, delta) if pld > 0.0 else 0.0,
        eps_coordinator=pld,
        eps_pld=pld,
        eps_rdp=max((rdp_epsilon(taken, delta=delta) for taken in steps), default=0.0),
        eps_external=pld,
        external_reason="amplified for everybody: batches are drawn in secret on the device",
    )


def _plain_steps(sigma: float, rate: float, rounds: int, participations: int | None) -> list[Step]:
    check_noise_multiplier(sigma)
    if rounds < 1 or not 0.0 < rate <= 1.0:
        raise PrivacyError(f"rounds = {rounds} must be >= 1 and the sample rate {rate} in (0, 1]")
    if participations is None:
        return [(sigma, rate, rounds)]
    if participations < 1:
        raise PrivacyError(f"participations = {participations} must be at least 1")
    return [(sigma, 1.0, min(participations, rounds))]


def epsilon(
    *,
    noise_multiplier: float,
    sample_rate: float = 1.0,
    rounds: int,
    delta: float,
    participations: int | None = None,
    accountant: str = "pld",
) -> float:
    """epsilon of `rounds` releases of a sum clipped per client, add/remove neighbours.

    With `participations` the figure is without amplification and a client takes part that often
    at most; otherwise Poisson sampling at `sample_rate` (1 is none). `accountant` is 'pld' or 'rdp'.
    """
    steps = _plain_steps(noise_multiplier, sample_rate, rounds, participations)
    if accountant not in ("pld", "rdp"):
        raise PrivacyError(f"accountant {accountant!r} is unknown; use 'pld' or 'rdp'")
    compute = pld_epsilon if accountant == "pld" else rdp_epsilon
    return compute(steps, delta=gdp.check_delta(delta))


def noise_for_budget(
    *,
    epsilon: float,
    delta: float,
    sample_rate: float = 1.0,
    rounds: int,
    participations: int | None = None,
) -> float:
    """The smallest noise multiplier whose PLD epsilon is at most `epsilon`; see `epsilon`."""
    if not (epsilon > 0.0 and math.isfinite(epsilon)):
        raise PrivacyError(f"epsilon = {epsilon} must be positive and finite")
    (_, rate, count) = _plain_steps(1.0, sample_rate, rounds, participations)[0]
    high = math.sqrt(count) / gdp.epsilon_to_mu(epsilon, delta)
    if rate == 1.0:
        return high
    # Sampling only helps, so the unamplified multiplier suffices.
    return sampled_multiplier(epsilon=epsilon, delta=delta, rate=rate, count=count, high=high)
