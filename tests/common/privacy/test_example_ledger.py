"""A client's ledger of its own examples: durable, charged first, its own unit, a hard stop."""

from __future__ import annotations

from pathlib import Path

import pytest
from opacus.accountants import PRVAccountant

from regionfed.errors import BudgetExhausted, PrivacyError, StateError
from regionfed.privacy.accountant import fits_by_rdp
from regionfed.privacy.config import ExampleConfig
from regionfed.privacy.events import ExampleLevelTraining, TrainingUpdate, Unit
from regionfed.privacy.example_ledger import (
    EXAMPLES,
    example_ledgers,
    example_spending,
    example_spent,
    example_terms,
)
from regionfed.privacy.ledger import InMemoryLedger
from regionfed.privacy.ledger_sqlite import SqliteLedger, ledger_path

DELTA = 1e-5


def event(round_: int, *, sigma: float = 4.0, rate: float = 0.1, steps: int = 10):
    return ExampleLevelTraining(
        round=round_, client="c0", noise_multiplier=sigma, sample_rate=rate, steps=steps
    )


def opened(folder: Path, *, epsilon: float, client: str = "c0") -> SqliteLedger:
    terms = example_terms(ExampleConfig(epsilon=epsilon), region="north", client=client)
    place = folder / "north" / client
    place.mkdir(parents=True, exist_ok=True)
    return SqliteLedger(ledger_path(place, EXAMPLES), terms)


def test_rounds_compose_to_the_oracle_and_to_opacus(tmp_path: Path) -> None:
    ledger = opened(tmp_path, epsilon=1.0)
    for round_ in range(1, 6):
        ledger.release(ledger.charge(event(round_)))
    spent = example_spent(ledger)
    # 5 rounds of 10 steps are the 50 of privacy section 7.
    assert spent.eps_pld == pytest.approx(0.6842, abs=5e-4)
    assert spent.eps_rdp == pytest.approx(0.7577, abs=5e-4)
    assert ledger.spent().unit is Unit.EXAMPLE
    assert ledger.spent().eps_coordinator == pytest.approx(spent.eps_pld)
    prv = PRVAccountant()
    prv.history = [(4.0, 0.1, 10)] * 5
    theirs = prv.get_epsilon(DELTA, eps_error=0.001)
    assert spent.eps_pld <= theirs <= spent.eps_pld + 0.0015


def test_rounds_of_different_rates_agree_with_opacus(tmp_path: Path) -> None:
    ledger = opened(tmp_path, epsilon=100.0)
    history = [(1.0, 0.05, 20), (1.5, 0.25, 8), (1.0, 0.05, 20)]
    for round_, (sigma, rate, steps) in enumerate(history, start=1):
        ledger.charge(event(round_, sigma=sigma, rate=rate, steps=steps))
    prv = PRVAccountant()
    prv.history = history
    theirs = prv.get_epsilon(DELTA, eps_error=0.001)
    assert example_spent(ledger).eps_pld == pytest.approx(theirs, abs=0.003)


def test_it_stops_at_the_last_affordable_round_and_remembers(tmp_path: Path) -> None:
    ledger = opened(tmp_path, epsilon=0.5)
    # PLD at 25 steps is .4800 and at 50 .6842: two rounds of 10 fit, and so does half a third.
    ledger.charge(event(1))
    ledger.charge(event(2))
    assert ledger.can_afford(event(3, steps=5))
    assert not ledger.can_afford(event(3))
    with pytest.raises(BudgetExhausted, match=r"client north/c0.*above the budget 0.5"):
        ledger.charge(event(3))
    assert ledger.counts() == (2, 0)
    ledger.close()
    again = opened(tmp_path, epsilon=0.5)
    assert len(again.events()) == 2
    with pytest.raises(BudgetExhausted):
        again.charge(event(3))
    again.close()
    with pytest.raises(StateError, match="opened with"):
        opened(tmp_path, epsilon=5.0)


def test_what_renyi_accepts_pld_accepts() -> None:
    events = [event(1, steps=50)]
    assert fits_by_rdp(events, epsilon=0.7578, delta=DELTA)
    assert not fits_by_rdp(events, epsilon=0.70, delta=DELTA)
    terms = example_terms(ExampleConfig(epsilon=0.70), region="r", client="c0")
    assert InMemoryLedger(terms).can_afford(*events)


def test_other_units_are_kept_out(tmp_path: Path) -> None:
    ledger = opened(tmp_path, epsilon=1.0)
    with pytest.raises(PrivacyError, match="belongs into the region's ledger"):
        ledger.charge(TrainingUpdate(round=1, noise_multiplier=4.0))
    assert ledger.counts() == (0, 0)
    assert example_spent(ledger).eps_pld == 0.0


def test_the_largest_of_several_clients_counts(tmp_path: Path) -> None:
    for client, rounds in (("c0", 1), ("c1", 2), ("c2", 2)):
        ledger = opened(tmp_path, epsilon=1.0, client=client)
        for round_ in range(1, rounds + 1):
            ledger.charge(event(round_))
        ledger.close()
    found = example_spending(example_ledgers(tmp_path))
    assert (found.clients, found.charges) == (3, 5)
    assert found.epsilon == pytest.approx(
        example_spent(opened(tmp_path, epsilon=1.0, client="c1")).eps_pld
    )
    assert example_spending([]).epsilon == 0.0
