"""A simulation with client processes gives the model of one without, and outlives one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.engine.workers import usable_workers
from regionfed.method.vectors import Vector
from regionfed.run.folder import RunFolder
from regionfed.run.result import Result


def configure(**training: Any) -> FederationConfig:
    return FederationConfig.model_validate(
        {
            "run": {"rounds": 2, "seed": 7},
            "data": {
                "regions": 2,
                "clients_per_region": 3,
                "builtin": {"train_queries": 24, "validation_queries": 6, "test_queries": 6},
            },
            "model": {"kind": "t5", "preset": "tiny"},
            "training": {"steps": 2, "batch_size": 8, **training},
            "privacy": {"mode": "off"},
        }
    )


def trained(config: FederationConfig, folder: Path, *, workers: int) -> tuple[Vector, Result]:
    run = RunFolder.create(config, out=folder)
    result = simulate(config, run, workers=workers)
    checkpoint = run.checkpoints(config.run.keep_checkpoints).load_latest()
    assert checkpoint is not None
    return checkpoint.arrays["theta"], result


def worker_processes() -> list[int]:
    return [
        child.pid
        for child in multiprocessing.active_children()
        if child.name.startswith("clients-") and child.pid is not None
    ]


@pytest.mark.timeout(180)
def test_processes_change_nothing_and_one_may_die(tmp_path: Path) -> None:
    config = configure()
    theta, alone = trained(config, tmp_path / "alone", workers=1)
    killed: list[int] = []

    def kill_one() -> None:
        end = time.monotonic() + 60
        while not killed and time.monotonic() < end:
            for pid in worker_processes():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break
            time.sleep(0.05)

    killer = threading.Thread(target=kill_one)
    killer.start()
    shared, result = trained(config, tmp_path / "shared", workers=2)
    killer.join()
    assert killed
    assert np.array_equal(theta, shared)
    assert result.levels["regional"].overall == alone.levels["regional"].overall
    assert worker_processes() == []
    assert (tmp_path / "shared" / "logs" / "clients-1.log").exists()


def test_a_run_takes_processes_where_they_pay() -> None:
    assert usable_workers(configure(), clients=6) == 1
    assert usable_workers(configure(device="cpu"), clients=10_000) == len(os.sched_getaffinity(0))
    assert usable_workers(configure(device="cpu", threads=999), clients=10_000) == 1
