"""Charges and releases without end until it is killed: the victim of `test_ledger_kill_drill`.

Arguments: ledger file, file of releases. One line is synced to the latter per release.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from regionfed.privacy.events import TrainingUpdate
from regionfed.privacy.ledger_records import LedgerTerms
from regionfed.privacy.ledger_sqlite import SqliteLedger


def main() -> None:
    terms = LedgerTerms(region="north", epsilon=1e6, delta=1e-5)
    ledger = SqliteLedger(Path(sys.argv[1]), terms)
    releases = os.open(sys.argv[2], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.write(1, b"ready\n")
    for round in itertools.count():
        token = ledger.charge(TrainingUpdate(round=round, noise_multiplier=4.0))
        os.write(releases, f"{token.seq}\n".encode())
        ledger.release(token)


if __name__ == "__main__":
    main()
