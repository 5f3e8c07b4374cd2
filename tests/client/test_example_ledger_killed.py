"""A client killed with -9 while it trains by DP-SGD finds the charge in its ledger afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regionfed_client.example_level as device
from regionfed.config.federation import FederationConfig
from regionfed.errors import BudgetExhausted
from regionfed.messages import TrainOrder
from regionfed.privacy.example_ledger import example_ledgers, example_spent
from regionfed.privacy.ledger_sqlite import SqliteLedger
from regionfed_client.runtime import ClientRuntime, Shared
from regionfed_client.train import train_client


def runtime(state: Path, *, epsilon: float) -> ClientRuntime:
    config = FederationConfig.model_validate(
        {
            "data": {
                "regions": 2,
                "clients_per_region": 2,
                "tasks": ["intent"],
                "builtin": {"train_queries": 24, "validation_queries": 2, "test_queries": 2},
            },
            "model": {"kind": "roberta", "preset": "tiny", "freeze": "encoder"},
            "training": {"batch_size": 8},
            "client": {"state": str(state)},
            "method": {"strategy": "none"},
            "privacy": {
                "mode": "off",
                "example_level": True,
                "example": {"noise_multiplier": 2.0, "epsilon": epsilon},
            },
        }
    )
    return ClientRuntime(Shared(config), "r00", "c00")


def order(client: ClientRuntime, round: int) -> TrainOrder:
    return TrainOrder(
        run="run",
        region="r00",
        round=round,
        digest=client.config.digest(),
        layout=client.bench.layout,
        start=client.bench.flat.read(),
    )


def dies(state: Path) -> None:
    def killed(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    device.private_train = killed
    client = runtime(state, epsilon=20.0)
    train_client(client, order(client, 1))


@pytest.mark.slow
def test_the_charge_outlives_the_process(tmp_path: Path) -> None:
    victim = multiprocessing.get_context("spawn").Process(target=dies, args=(tmp_path,))
    victim.start()
    victim.join(120)
    assert victim.exitcode == -signal.SIGKILL
    (path,) = example_ledgers(tmp_path)
    ledger = SqliteLedger.existing(path)
    assert ledger.counts() == (1, 0)
    ledger.verify()
    ledger.close()
    client = runtime(tmp_path, epsilon=20.0)
    train_client(client, order(client, 1))
    again = SqliteLedger.existing(path)
    # The round was asked again, with fresh noise: charged again.
    assert again.counts() == (2, 1)
    assert len({event.round for event in again.events()}) == 1


def test_the_ledger_is_the_devices_and_goes_on_over_runs(tmp_path: Path) -> None:
    client = runtime(tmp_path, epsilon=2.5)
    asked = order(client, 1)
    done = 0
    while done < 10:
        # Each time another run, as the coordinator tells it.
        try:
            train_client(client, replace(asked, run=f"run{done}"))
        except BudgetExhausted:
            break
        done += 1
    (path,) = example_ledgers(tmp_path)
    ledger = SqliteLedger.existing(path)
    assert 1 <= done < 10
    assert ledger.counts() == (done, done)
    assert example_spent(ledger).eps_pld <= 2.5
