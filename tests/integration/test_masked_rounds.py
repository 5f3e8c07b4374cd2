"""Secure aggregation through the tiers when clients drop out, and what a retry costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from private_runs import SECURE, ledgers, prepare, theta

import regionfed_client.train as client_train
from regionfed.engine import simulate
from regionfed.errors import ConfigError
from regionfed.flower.local import Fault
from regionfed.run.folder import RunFolder
from regionfed.run.records import RoundRecord
from regionfed_client.secure import SecureDevice
from regionfed_coordinator.region import Region

QUICK = {"round_deadline": 2.0, "join_deadline": 2.0}


def failing(monkeypatch: pytest.MonkeyPatch, *clients: str, region: str = "r1") -> None:
    """These clients open a round and fail when they should train."""
    original = client_train.train_client

    def train(runtime: Any, order: Any) -> Any:
        if runtime.region == region and runtime.client in clients:
            raise ConfigError("out of order")
        return original(runtime, order)

    monkeypatch.setattr(client_train, "train_client", train)


def test_a_client_lost_after_opening_is_recovered_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "c2")
    plain_config, plain = prepare(tmp_path, name="plain", run={"rounds": 2})
    simulate(plain_config, plain)
    config, folder = prepare(tmp_path, name="masked", run={"rounds": 2}, privacy=SECURE)
    result = simulate(config, folder)
    assert {(left.region, left.client) for left in result.left_out} == {("r1", "c2")}
    assert result.skipped == ()
    np.testing.assert_allclose(theta(folder), theta(plain), atol=1e-5)


def exchanges(folder: RunFolder, region: str) -> list[int | None]:
    last = {r.round: r for r in folder.metrics().read() if isinstance(r, RoundRecord)}
    return [last[number].regions[region].exchanges for number in sorted(last)]


def test_an_undisturbed_round_opens_the_next_with_its_unmasking(tmp_path: Path) -> None:
    config, folder = prepare(tmp_path, run={"rounds": 4}, privacy=SECURE)
    assert simulate(config, folder).status == "ok"
    assert exchanges(folder, "r1") == [3, 2, 2, 2]


def test_a_round_that_lost_a_client_opens_nothing_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "c2")
    config, folder = prepare(tmp_path, run={"rounds": 3}, privacy=SECURE)
    assert simulate(config, folder).skipped == ()
    assert exchanges(folder, "r1") == [3, 3, 3]
    assert exchanges(folder, "r0") == [3, 2, 2]


def test_clients_that_take_turns_open_their_own_rounds(tmp_path: Path) -> None:
    config, folder = prepare(
        tmp_path,
        run={"rounds": 3},
        coordinator={"cohort": 3},
        privacy={"mode": "client", **SECURE},
    )
    assert simulate(config, folder).skipped == ()
    assert exchanges(folder, "r1") == [3, 3, 3]


@pytest.mark.parametrize("how", ["refused", "forgotten"])
def test_what_was_opened_ahead_and_is_not_there_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A client refuses the opening that comes along, or the coordinator was restarted since."""
    if how == "refused":
        original = SecureDevice._opened_ahead

        def refuse(self: SecureDevice, step: bytes) -> bytes:
            return b"" if self.name == "c1" else original(self, step)

        monkeypatch.setattr(SecureDevice, "_opened_ahead", refuse)
    else:
        monkeypatch.setattr(Region, "mark_released", lambda self: self.opened_ahead.clear())
    config, folder = prepare(tmp_path, run={"rounds": 3}, privacy=SECURE)
    plain_config, plain = prepare(tmp_path, name="plain", run={"rounds": 3})
    result = simulate(config, folder)
    simulate(plain_config, plain)
    assert (result.status, result.skipped, result.left_out) == ("ok", (), ())
    assert exchanges(folder, "r0") == [3, 3, 3]
    np.testing.assert_allclose(theta(folder), theta(plain), atol=1e-5)


def test_a_client_that_never_opens_is_left_out(tmp_path: Path) -> None:
    config, folder = prepare(tmp_path, run={"rounds": 1}, privacy=SECURE, coordinator=QUICK)
    result = simulate(config, folder, faults={"r0": {"c3": Fault(silent=True)}})
    assert result.skipped == ()
    assert {(left.region, left.client) for left in result.left_out} == {("r0", "c3")}


def test_a_region_below_the_threshold_is_skipped_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "c1", "c2")
    config, folder = prepare(
        tmp_path, run={"rounds": 2}, privacy={"mode": "client-strict", **SECURE}
    )
    result = simulate(config, folder)
    assert {skip.region for skip in result.skipped} == {"r1"}
    assert "2 survivors" in result.skipped[0].reason or "t = 3" in result.skipped[0].reason
    # The ledger was asked whether it could pay, and paid nothing.
    assert {name: ledger.counts()[0] for name, ledger in ledgers(folder).items()} == {
        "r0": 2,
        "r1": 0,
        "r2": 2,
    }


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from regionfed.bridge.local import LocalBridge
from regionfed.engine import simulate
from regionfed.run.folder import RunFolder
from regionfed.run.records import RoundRecord
from regionfed_client.secure import SecureDevice
from regionfed_coordinator.region import Region

original = LocalBridge.push_result
def push(self, result, state=None):
    if ":1:train" in result.job_id:
        os._exit(9)
    return original(self, result, state)
LocalBridge.push_result = push
folder = RunFolder.open(Path({folder!r}))
simulate(folder.config(), folder)
"""


def test_a_death_between_charge_and_release_leaves_the_charge(tmp_path: Path) -> None:
    config, folder = prepare(
        tmp_path,
        run={"rounds": 2},
        privacy={"mode": "client", "noise_multiplier": 4.0, "budget": {"epsilon": 3.0}},
    )
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(folder.path))
    died = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=120, env={**os.environ}
    )
    assert died.returncode == 9
    counts = {name: ledger.counts() for name, ledger in ledgers(folder).items()}
    assert counts
    assert all(released == 0 for _, released in counts.values())
    before = {name: charged for name, (charged, _) in counts.items()}
    again = RunFolder.create(config, out=folder.path, resume=True)
    result = simulate(config, again)
    assert result.status == "ok"
    for name, ledger in ledgers(folder).items():
        charged, released = ledger.counts()
        assert (charged, released) == (2 + before.get(name, 0), 2)
        attempts = [(event.round, event.attempt) for event in ledger.events()]
        assert attempts == ([(1, 0), (1, 1), (2, 0)] if before.get(name) else [(1, 0), (2, 0)])
