"""The oracles of privacy section 7 and the rules of accounting."""

from __future__ import annotations

import math

import pytest

from regionfed.errors import PrivacyError
from regionfed.privacy import gdp
from regionfed.privacy.accountant import (
    cost,
    epsilon,
    example_level_epsilon,
    noise_for_budget,
    spend,
)
from regionfed.privacy.dp_library import pld_epsilon, rdp_epsilon
from regionfed.privacy.events import (
    ConflictSketch,
    DatasetSize,
    Event,
    ExampleLevelTraining,
    Noise,
    RawQuery,
    RegionalMeanRelease,
    Sampling,
    TrainingUpdate,
    Unit,
)
from regionfed.privacy.paper import paper_formula

DELTA = 1e-5
TOLERANCE = 5e-4


@pytest.mark.parametrize(
    ("rate", "pld", "rdp"),
    [
        (0.01, 0.0552, 0.0672),
        (0.05, 0.3221, 0.3593),
        (0.1, 0.6842, 0.7577),
        (0.2, 1.4529, 1.5992),
        (0.5, 3.9614, 4.3096),
        (1.0, 8.5959, 9.2350),
    ],
)
def test_sampling_rates(rate: float, pld: float, rdp: float) -> None:
    settings = {"noise_multiplier": 4.0, "sample_rate": rate, "rounds": 50, "delta": DELTA}
    assert epsilon(**settings) == pytest.approx(pld, abs=TOLERANCE)
    assert epsilon(**settings, accountant="rdp") == pytest.approx(rdp, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(1, 0.1104), (10, 0.3050), (25, 0.4800), (50, 0.6842), (100, 0.9829)]
)
def test_rounds(rounds: int, expected: float) -> None:
    value = epsilon(noise_multiplier=4, sample_rate=0.1, rounds=rounds, delta=DELTA)
    assert value == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize(("delta", "expected"), [(1e-6, 0.7950), (1e-8, 0.9903)])
def test_deltas(delta: float, expected: float) -> None:
    value = epsilon(noise_multiplier=4, sample_rate=0.1, rounds=50, delta=delta)
    assert value == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("participations", "expected"),
    [(1, 0.9263), (2, 1.3565), (5, 2.2581), (10, 3.3414), (50, 8.5959)],
)
def test_bounded_participation(participations: int, expected: float) -> None:
    value = epsilon(noise_multiplier=4, rounds=50, delta=DELTA, participations=participations)
    assert value == pytest.approx(expected, abs=TOLERANCE)
    mu = math.sqrt(participations) / 4.0
    assert gdp.mu_to_epsilon(mu, DELTA) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("sigma", "paper", "poisson", "rdp", "unamplified", "five", "mean"),
    [
        (1, 2.40, 5.1483, 5.8854, 54.377, 11.480, 22.623),
        (2, 1.20, 1.6525, 1.8440, 20.676, 4.983, 5.148),
        (4, 0.60, 0.6842, 0.7577, 8.596, 2.258, 1.6525),
        (8, 0.30, 0.3076, 0.3410, 3.797, 1.047, 0.684),
        (16, 0.15, 0.1419, 0.1659, 1.737, 0.491, 0.308),
    ],
)
def test_table_of_section_1(
    sigma: float,
    paper: float,
    poisson: float,
    rdp: float,
    unamplified: float,
    five: float,
    mean: float,
) -> None:
    common = {"rounds": 50, "delta": DELTA}
    printed = paper_formula(noise_multiplier=sigma, sample_rate=0.1, **common)
    assert printed == pytest.approx(paper, abs=5e-3)
    sampled = {"noise_multiplier": sigma, "sample_rate": 0.1, **common}
    assert epsilon(**sampled) == pytest.approx(poisson, abs=TOLERANCE)
    assert epsilon(**sampled, accountant="rdp") == pytest.approx(rdp, abs=TOLERANCE)
    assert epsilon(noise_multiplier=sigma, **common) == pytest.approx(unamplified, abs=1e-3)
    assert epsilon(noise_multiplier=sigma, participations=5, **common) == pytest.approx(
        five, abs=1e-3
    )
    # One client moves a clipped mean by 2C: half the multiplier.
    seen_per_client = epsilon(noise_multiplier=sigma / 2, sample_rate=0.1, **common)
    assert seen_per_client == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "mu"),
    [(0.6, 0.16808), (1, 0.26805), (2, 0.50155), (4, 0.92493), (8, 1.66603)],
)
def test_mu_of_epsilon_and_back(value: float, mu: float) -> None:
    assert gdp.epsilon_to_mu(value, DELTA) == pytest.approx(mu, abs=1e-4)
    assert gdp.mu_to_epsilon(gdp.epsilon_to_mu(value, DELTA), DELTA) == pytest.approx(value)


@pytest.mark.parametrize(
    ("budget", "poisson", "bounded"),
    [
        (0.6, 4.4700, 13.3037),
        (1, 2.9297, 8.3419),
        (2, 1.7503, 4.4583),
        (4, 1.1445, 2.4176),
        (8, 0.8030, 1.3422),
    ],
)
def test_noise_for_a_budget(budget: float, poisson: float, bounded: float) -> None:
    sampled = noise_for_budget(epsilon=budget, delta=DELTA, sample_rate=0.1, rounds=50)
    assert sampled == pytest.approx(poisson, abs=TOLERANCE)
    counted = noise_for_budget(epsilon=budget, delta=DELTA, rounds=50, participations=5)
    assert counted == pytest.approx(bounded, abs=TOLERANCE)


def test_the_noise_for_a_budget_keeps_it() -> None:
    common = {"sample_rate": 0.1, "rounds": 50, "delta": DELTA}
    sigma = noise_for_budget(epsilon=1.0, **common)
    assert 0.999 <= epsilon(noise_multiplier=sigma, **common) <= 1.0


def test_own_rdp_conversion_is_never_below_the_library() -> None:
    for mu in (0.05, 0.25, 0.5, 1.768, 6.0):
        library = rdp_epsilon([(1.0 / mu, 1.0, 1)], delta=DELTA)
        own = gdp.rdp_to_epsilon(mu, DELTA)
        assert own >= gdp.mu_to_epsilon(mu, DELTA)
        # Integer orders cost a little; small mu gains from orders the library does not try.
        assert own <= library * 1.1


def test_gdp_matches_pld() -> None:
    for steps in ([(5.048, 1.0, 5), (14.0984, 1.0, 6)], [(1.0, 1.0, 9)], [(0.2, 1.0, 1)]):
        mu = math.sqrt(sum(count / sigma**2 for sigma, _, count in steps))
        assert pld_epsilon(steps, delta=DELTA) == pytest.approx(
            gdp.mu_to_epsilon(mu, DELTA), rel=1e-3
        )


def updates(rounds: int, sigma: float = 4.0, **fields: object) -> list[Event]:
    return [TrainingUpdate(round=t, noise_multiplier=sigma, **fields) for t in range(rounds)]


def test_only_the_dearest_participations_count() -> None:
    spent = spend(updates(50), delta=DELTA, max_participations=5)
    assert spent.eps_coordinator == pytest.approx(2.2581, abs=TOLERANCE)
    assert spent.eps_pld == pytest.approx(2.2581, abs=TOLERANCE)
    assert spent.eps_rdp > spent.eps_pld
    assert spent.eps_external == spent.eps_coordinator
    assert "not amplified" in spent.external_reason
    mixed = [*updates(3, 8.0), TrainingUpdate(round=9, noise_multiplier=2.0)]
    assert cost(mixed, max_participations=1).mu_squared == pytest.approx(1 / 4)


def test_a_retry_counts_with_its_round() -> None:
    retried = [*updates(5), TrainingUpdate(round=2, attempt=1, noise_multiplier=4.0)]
    assert cost(retried, max_participations=5).mu_squared == pytest.approx(6 / 16)


def test_releases_of_one_round_are_one_participation() -> None:
    events = [
        *updates(10),
        *(ConflictSketch(round=t, noise_multiplier=8, width=32) for t in range(10)),
    ]
    assert cost(events, max_participations=2).mu_squared == pytest.approx(2 * (1 / 16 + 1 / 64))
    once = [DatasetSize(round=t, noise_multiplier=10) for t in range(4)]
    assert cost(once, max_participations=1).mu_squared == pytest.approx(4 / 100)


def test_secret_poisson_sampling_amplifies_outside_only() -> None:
    events = updates(50, sampling=Sampling.POISSON, sample_rate=0.1)
    spent = spend(events, delta=DELTA)
    assert spent.eps_external == pytest.approx(0.6842, abs=TOLERANCE)
    assert spent.eps_coordinator == pytest.approx(8.5959, abs=TOLERANCE)


def test_poisson_releases_of_one_cohort_share_their_sample() -> None:
    sampled = {"sampling": Sampling.POISSON, "sample_rate": 0.1}
    events: list[Event] = []
    for t in range(50):
        events.append(TrainingUpdate(round=t, noise_multiplier=4 * math.sqrt(2), **sampled))
        events.append(
            ConflictSketch(round=t, noise_multiplier=4 * math.sqrt(2), width=32, **sampled)
        )
    assert spend(events, delta=DELTA).eps_external == pytest.approx(0.6842, abs=TOLERANCE)


def test_bounded_participation_gives_up_amplification() -> None:
    events = updates(50, sampling=Sampling.POISSON, sample_rate=0.1)
    spent = spend(events, delta=DELTA, max_participations=5)
    assert spent.eps_external == spent.eps_coordinator
    assert "bounded participation" in spent.external_reason


def test_a_raw_query_makes_epsilon_infinite() -> None:
    spent = spend([*updates(1), RawQuery(round=0, what="intent histogram")], delta=DELTA)
    assert math.isinf(spent.eps_coordinator)
    assert math.isinf(spent.eps_external)
    assert math.isinf(spent.eps_pld)


def test_example_level_is_never_added_to_client_level() -> None:
    example = ExampleLevelTraining(
        round=0, client="c1", noise_multiplier=4.0, sample_rate=0.1, steps=50
    )
    assert spend([*updates(5), example], delta=DELTA) == spend(updates(5), delta=DELTA)
    assert example_level_epsilon([*updates(5), example], delta=DELTA) == {
        "c1": pytest.approx(0.6842, abs=TOLERANCE)
    }


def test_paper_mode_protects_regions_and_half_as_well_clients() -> None:
    events = [RegionalMeanRelease(round=t, noise_multiplier=4.0) for t in range(50)]
    region = spend(events, delta=DELTA, unit=Unit.REGION, max_participations=5)
    assert region.eps_coordinator == pytest.approx(8.5959, abs=TOLERANCE)
    assert spend(events, delta=DELTA).eps_coordinator == pytest.approx(20.676, abs=1e-3)
    with pytest.raises(PrivacyError, match="says nothing about a whole region"):
        cost(updates(1), unit=Unit.REGION)


def test_skellam_is_bound_by_rdp() -> None:
    strict = spend(updates(5, noise=Noise.SKELLAM), delta=DELTA)
    assert strict.eps_coordinator > spend(updates(5), delta=DELTA).eps_coordinator
    assert strict.eps_coordinator == gdp.rdp_to_epsilon(math.sqrt(5) / 4, DELTA)


def test_an_unknown_event_is_refused() -> None:
    class Homemade(TrainingUpdate):
        pass

    with pytest.raises(PrivacyError, match="Homemade is not a privacy event"):
        cost([Homemade(round=0, noise_multiplier=4.0)])


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_a_bad_delta_is_refused(delta: float) -> None:
    with pytest.raises(PrivacyError, match="delta"):
        epsilon(noise_multiplier=4, rounds=1, delta=delta)
