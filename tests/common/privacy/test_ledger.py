"""One suite for every ledger, and what only the durable one can do."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regionfed.errors import BudgetExhausted, PrivacyError, StateError
from regionfed.privacy.accountant import Cost
from regionfed.privacy.budget import split_budget
from regionfed.privacy.events import (
    ConflictSketch,
    DatasetSize,
    ExampleLevelTraining,
    Noise,
    RawQuery,
    RegionalMeanRelease,
    TrainingUpdate,
    Unit,
)
from regionfed.privacy.ledger import InMemoryLedger, Ledger
from regionfed.privacy.ledger_records import ChargeToken, LedgerTerms
from regionfed.privacy.ledger_sqlite import SqliteLedger, ledger_path
from regionfed.privacy.system import system_epsilon

Opener = Callable[..., Ledger]
TERMS = LedgerTerms(region="north", epsilon=2.0, delta=1e-5)


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    made: list[SqliteLedger] = []

    def make(**changes: object) -> Ledger:
        terms = LedgerTerms(**{**TERMS.__dict__, **changes})
        if request.param == "memory":
            return InMemoryLedger(terms)
        made.append(SqliteLedger(ledger_path(tmp_path, terms.region), terms))
        return made[-1]

    yield make
    for ledger in made:
        ledger.close()


def update(round: int, sigma: float = 4.0, **fields: object) -> TrainingUpdate:
    return TrainingUpdate(round=round, noise_multiplier=sigma, **fields)


def test_charge_then_release(opened: Opener) -> None:
    ledger = opened()
    token = ledger.charge(update(0))
    assert ledger.counts() == (1, 0)
    ledger.release(token)
    assert ledger.counts() == (1, 1)
    assert ledger.events() == [update(0)]
    assert ledger.spent().eps_coordinator == pytest.approx(0.9263, abs=5e-4)
    assert ledger.verify() == ledger.head


def test_a_token_is_good_for_one_release_of_one_ledger(opened: Opener) -> None:
    ledger = opened()
    token = ledger.charge(update(0))
    ledger.release(token)
    with pytest.raises(PrivacyError, match="released already"):
        ledger.release(token)
    for forged in (ChargeToken("south", token.seq, token.hash), ChargeToken("north", 9, "00")):
        with pytest.raises(PrivacyError, match="no charge of this ledger"):
            ledger.release(forged)


def test_a_retry_is_charged_again(opened: Opener) -> None:
    ledger = opened()
    ledger.charge(update(0))
    ledger.charge(update(0, attempt=1))
    assert ledger.spent().mu == pytest.approx(math.sqrt(2) / 4)


def test_hard_stop_at_the_budget_names_the_ledger(opened: Opener) -> None:
    ledger = opened()
    # 4 releases of sigma 4 cost 1.993, 5 would cost 2.258.
    for round in range(4):
        ledger.charge(update(round))
    with pytest.raises(BudgetExhausted) as stopped:
        ledger.charge(update(4))
    assert ledger.name in str(stopped.value)
    assert "from 1.9931 to 2.2581" in str(stopped.value)
    assert ledger.counts() == (4, 0)
    assert not ledger.can_afford(update(9))
    assert ledger.can_afford(update(9, 40.0))
    assert not ledger.can_afford(*(update(9 + i, 10.0) for i in range(9)))
    ledger.require_affordable(update(9, 40.0))
    with pytest.raises(BudgetExhausted, match="training-update, training-update of round 9"):
        ledger.require_affordable(update(9, 40.0), update(9))
    assert ledger.counts() == (4, 0)
    ledger.charge(update(9, 200.0))


def test_the_default_budget_pays_for_exactly_its_own_table(opened: Opener) -> None:
    ledger = opened(max_participations=5, min_separation=10)
    sigma = {item.release: item.noise_multiplier for item in split_budget()}
    ledger.charge(DatasetSize(round=0, noise_multiplier=sigma["dataset-size"]))
    for round in range(50):
        cohort = [f"client-{round % 10}"]
        ledger.charge(update(round, sigma["training-update"]), participants=cohort)
        ledger.charge(
            ConflictSketch(round=round, noise_multiplier=sigma["conflict-sketch"], width=32),
            participants=cohort,
        )
    # 78 + 10 + 2 percent of the budget are spent.
    assert ledger.total_cost().mu_squared == pytest.approx(0.9 * 0.50155**2, rel=1e-4)
    assert set(ledger.cost_by_release()) == {"training-update", "conflict-sketch", "dataset-size"}
    assert ledger.participations("client-3") == [3, 13, 23, 33, 43]


def test_participation_is_bounded(opened: Opener) -> None:
    ledger = opened(max_participations=2, min_separation=3)
    with pytest.raises(PrivacyError, match="must name its participants"):
        ledger.charge(update(0))
    ledger.charge(update(0, 20.0), participants=["a", "b"])
    with pytest.raises(PrivacyError, match="client a took part in round 0"):
        ledger.charge(update(2, 20.0), participants=["a"])
    ledger.charge(update(3, 20.0), participants=["a"])
    with pytest.raises(PrivacyError, match="client a already took part in 2 of at most 2"):
        ledger.charge(update(6, 20.0), participants=["b", "a"])
    assert ledger.participations("b") == [0]
    assert ledger.counts() == (2, 0)


def test_correlated_noise_is_drawn_once_per_round(opened: Opener) -> None:
    ledger = opened(max_participations=5, min_separation=10)
    correlated = {"noise": Noise.CORRELATED, "bands": 10}
    ledger.charge(update(0, 10.0, **correlated), participants=["a"])
    with pytest.raises(PrivacyError, match="drawn already"):
        ledger.charge(update(0, 10.0, **correlated), participants=["a"])
    with pytest.raises(PrivacyError, match="drawn already"):
        ledger.charge(update(10, 10.0, attempt=1, **correlated), participants=["a"])
    with pytest.raises(PrivacyError, match="at least 11 rounds apart"):
        ledger.charge(update(10, 10.0, noise=Noise.CORRELATED, bands=11), participants=["a"])
    with pytest.raises(PrivacyError, match="for training updates"):
        ledger.charge(
            ConflictSketch(round=10, noise_multiplier=9, width=32, noise=Noise.CORRELATED),
            participants=["a"],
        )


def test_raw_queries_are_stopped_by_a_budget_and_recorded_without_one(opened: Opener) -> None:
    with pytest.raises(BudgetExhausted, match="inf"):
        opened().charge(RawQuery(round=0, what="losses for rho"))
    paper = opened(region="paper", epsilon=math.inf, unit=Unit.REGION)
    paper.charge(RegionalMeanRelease(round=0, noise_multiplier=4.0))
    paper.charge(RawQuery(round=0, what="losses for rho"))
    assert math.isinf(paper.spent().eps_coordinator)


def test_example_level_events_are_recorded_and_not_added(opened: Opener) -> None:
    ledger = opened()
    ledger.charge(
        ExampleLevelTraining(round=0, client="a", noise_multiplier=0.5, sample_rate=0.5, steps=99)
    )
    assert ledger.spent().eps_coordinator == 0.0
    assert ledger.cost_by_release() == {}


def test_unknown_events_are_refused_before_anything_is_stored(opened: Opener) -> None:
    class Homemade(TrainingUpdate):
        pass

    ledger = opened()
    with pytest.raises(PrivacyError, match="Homemade"):
        ledger.charge(Homemade(round=0, noise_multiplier=4.0))
    assert ledger.counts() == (0, 0)


def test_a_cut_off_end_is_noticed_by_the_recorded_head(opened: Opener) -> None:
    ledger = opened()
    ledger.charge(update(0))
    recorded = ledger.head
    ledger.charge(update(1))
    assert ledger.verify(expected_head=recorded) != recorded
    with pytest.raises(StateError, match="not in the chain"):
        ledger.verify(expected_head="f" * 64)


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": 0.0},
        {"epsilon": 0.0},
        {"unit": Unit.EXAMPLE, "max_participations": 5},
        {"max_participations": 0},
        {"min_separation": 0},
    ],
)
def test_impossible_terms_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(PrivacyError):
        LedgerTerms(**{**TERMS.__dict__, **changes})


def test_the_file_outlives_its_process_and_keeps_its_terms(tmp_path: Path) -> None:
    path = ledger_path(tmp_path / "run", "north")
    first = SqliteLedger(path, TERMS)
    token = first.charge(update(0))
    first.close()
    assert path.stat().st_mode & 0o777 == 0o600
    second = SqliteLedger.existing(path)
    assert second.terms == TERMS
    second.release(token)
    assert second.counts() == (1, 1)
    second.close()
    with pytest.raises(StateError, match="not changed in the middle of a run"):
        SqliteLedger(path, LedgerTerms(region="north", epsilon=8.0, delta=1e-5))


def test_two_processes_see_each_other(tmp_path: Path) -> None:
    path = ledger_path(tmp_path, "north")
    first, second = SqliteLedger(path, TERMS), SqliteLedger(path, TERMS)
    for round in range(4):
        (first if round % 2 else second).charge(update(round))
    with pytest.raises(BudgetExhausted):
        first.charge(update(4))
    assert second.counts() == first.counts() == (4, 0)
    first.close()
    second.close()


def test_changes_are_refused_and_detected(tmp_path: Path) -> None:
    path = ledger_path(tmp_path, "north")
    ledger = SqliteLedger(path, TERMS)
    ledger.charge(update(0, 4.0))
    ledger.close()
    raw = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute("DELETE FROM entries")
    raw.executescript("DROP TRIGGER never_change; DROP TRIGGER never_delete;")
    raw.execute("UPDATE entries SET record = replace(record, '4.0', '9.0') WHERE seq = 2")
    raw.commit()
    raw.close()
    with pytest.raises(StateError, match="hash chain breaks at entry 2"):
        SqliteLedger.existing(path)


def test_files_that_are_no_ledger_are_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no privacy ledger at"):
        SqliteLedger.existing(tmp_path / "missing")
    rubbish = tmp_path / "rubbish"
    rubbish.write_bytes(b"not a database" * 100)
    with pytest.raises(StateError, match="rubbish"):
        SqliteLedger.existing(rubbish)
    empty = tmp_path / "empty"
    SqliteLedger(empty, TERMS).close()
    raw = sqlite3.connect(empty)
    raw.executescript("DROP TRIGGER never_delete; DELETE FROM entries;")
    raw.close()
    with pytest.raises(StateError, match="is empty"):
        SqliteLedger.existing(empty)


def test_system_epsilon_is_the_worst_region_or_the_sum_for_who_moved() -> None:
    costs = {"north": Cost(1 / 16), "south": Cost(2 / 16), "west": Cost(3 / 16)}
    worst = system_epsilon(costs, delta=1e-5)
    assert worst.regions == ("west",)
    assert worst.epsilon == pytest.approx(costs["west"].epsilon(1e-5))
    moved = system_epsilon(costs, delta=1e-5, moved=[("south", "west")])
    assert moved.regions == ("south", "west")
    assert moved.epsilon == pytest.approx(2.2581, abs=5e-4)
    with pytest.raises(PrivacyError, match="region east, which has no ledger"):
        system_epsilon(costs, delta=1e-5, moved=[("east", "west")])
