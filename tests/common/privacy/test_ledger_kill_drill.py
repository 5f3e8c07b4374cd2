"""A coordinator killed at any moment never has more releases than charges."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regionfed.privacy.ledger_sqlite import SqliteLedger

VICTIM = Path(__file__).with_name("ledger_kill_drill.py")


def drill(folder: Path, *, kills: int, seed: int) -> list[int]:
    """Kill the victim `kills` times; the surplus of charges over releases after each kill."""
    rng = random.Random(seed)
    ledger_file, release_file = folder / "north.ledger.sqlite", folder / "releases"
    surplus = []
    for _ in range(kills):
        victim = subprocess.Popen(
            [sys.executable, str(VICTIM), str(ledger_file), str(release_file)],
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            assert victim.stdout is not None
            assert victim.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.0, 0.06))
        finally:
            victim.kill()
            victim.wait(timeout=30)
            victim.stdout.close()
        ledger = SqliteLedger.existing(ledger_file)
        charged, marked = ledger.counts()
        released = [int(line) for line in release_file.read_text().split()]
        charged_entries = set(ledger._charges)
        ledger.verify()
        ledger.close()
        assert set(released) <= charged_entries, "a release left without its charge"
        assert len(released) == len(set(released))
        assert marked <= len(released) <= charged
        surplus.append(charged - len(released))
    return surplus


def test_a_few_kills(tmp_path: Path) -> None:
    surplus = drill(tmp_path, kills=5, seed=1)
    assert all(later - earlier in (0, 1) for earlier, later in itertools.pairwise(surplus))


@pytest.mark.slow
def test_fifty_kills(tmp_path: Path) -> None:
    surplus = drill(tmp_path, kills=50, seed=2)
    assert surplus == sorted(surplus)
    # Some of the kills fell between a charge and its release; each left one charge too many.
    assert 0 < surplus[-1] <= 50
