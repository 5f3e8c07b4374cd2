"""The ledgers that clients keep of their own examples, and what they add up to in one place."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from regionfed.privacy.accountant import Spent, Step, example_level_steps, spend
from regionfed.privacy.config import ExampleConfig
from regionfed.privacy.events import ExampleLevelTraining, Unit
from regionfed.privacy.ledger_records import LedgerTerms
from regionfed.privacy.ledger_sqlite import LEDGER_SUFFIX, SqliteLedger

EXAMPLES = "examples"
"""Name of a client's ledger file, before its suffix."""

SPENT = "the budget of this client's examples is spent"
"""How a client says that it trains no more."""


def example_terms(example: ExampleConfig, *, region: str, client: str) -> LedgerTerms:
    """The terms of one client's ledger; its unit is one training example."""
    return LedgerTerms(
        region=f"{region}/{client}", epsilon=example.epsilon, delta=example.delta, unit=Unit.EXAMPLE
    )


@dataclass(frozen=True)
class ExampleSpending:
    """What the ledgers of several clients say of the most exposed example.

    Clients' examples are disjoint, so `epsilon` is the largest over the `clients`, not their sum.
    """

    epsilon: float
    clients: int
    charges: int


def example_ledgers(root: Path) -> list[Path]:
    """Client ledgers below a folder that holds REGION/CLIENT folders."""
    return sorted(root.glob(f"*/*/{EXAMPLES}{LEDGER_SUFFIX}"))


def example_spending(paths: Iterable[Path]) -> ExampleSpending:
    """Read and account client ledgers.

    Raises StateError for a damaged one, PrivacyError when the `privacy` extra is missing.
    """
    epsilon, clients, charges = 0.0, 0, 0
    for path in paths:
        with closing(SqliteLedger.existing(path)) as ledger:
            epsilon = max(epsilon, example_spent(ledger).eps_pld)
            charges += ledger.counts()[0]
        clients += 1
    return ExampleSpending(epsilon, clients, charges)


def example_spent(ledger: SqliteLedger) -> Spent:
    """What a client's ledger has spent per example, by PLD and RDP."""
    (steps,) = example_level_steps(ledger.events()).values() or ((),)
    return _spent(tuple(sorted(steps)), ledger.terms.delta)


@lru_cache(maxsize=256)
def _spent(steps: tuple[Step, ...], delta: float) -> Spent:
    """Remembered: clients with as many rows have equal ledgers, and an epsilon takes a while."""
    events = [
        ExampleLevelTraining(
            round=0, client="", noise_multiplier=sigma, sample_rate=rate, steps=count
        )
        for sigma, rate, count in steps
    ]
    return spend(events, delta=delta, unit=Unit.EXAMPLE)
