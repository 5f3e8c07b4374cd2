"""Case 18: local training that outlasts every one of Flower's own limits is not taken for failure.

Flower gives up a node and a task after 60 s without a heartbeat, and a claimed task after 30 s
without a start. The client trains for 105 s; the deadlines of the configuration alone decide.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convex_model import STEP_SECONDS, WIDTH

from regionfed.config.federation import FederationConfig
from regionfed.launch import LocalFederation
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent
from regionfed.run.records import RoundRecord

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = 3
TRAINING = STEPS * STEP_SECONDS
FLOWER_GIVES_UP = 60.0


def configure(folder: Path, *, deadline: float) -> FederationConfig:
    rng = np.random.default_rng(5)
    with (folder / "rows.jsonl").open("w") as file:
        for split in ("train", "validation", "test"):
            for row in rng.standard_normal((8, WIDTH)).round(3):
                fields = {"text": " ".join(map(str, row)), "target": str(row.sum())}
                place = {"split": split, "region": "north", "client": "c0"}
                file.write(json.dumps({**fields, **place}) + "\n")
    given: dict[str, Any] = {
        "run": {"rounds": 1, "evaluate_every": 0},
        "data": {
            "source": "files",
            "custom": {"regression": {"kind": "text"}},
            "files": {
                "path": str(folder / "rows.jsonl"),
                "task": "regression",
                "region_column": "region",
                "client_column": "client",
                "split_column": "split",
            },
        },
        "model": {"kind": "factory", "factory": "convex_model:slow_regression"},
        "training": {
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "steps": STEPS,
            "batch_size": 8,
        },
        "coordinator": {"round_deadline": deadline},
        "server": {"max_failed_rounds": 1},
        "method": {"strategy": "residual"},
        "privacy": {"mode": "off"},
    }
    return FederationConfig.model_validate(given)


def ignore(event: ProgressEvent) -> None:
    del event


@pytest.fixture(autouse=True)
def _factory_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def test_case_18_long_training_counts(tmp_path: Path) -> None:
    assert TRAINING > 1.5 * FLOWER_GIVES_UP
    config = configure(tmp_path, deadline=TRAINING + 150.0)
    folder = RunFolder.create(config, out=tmp_path / "run")
    with LocalFederation(config, folder) as federation:
        federation.submit()
        result = federation.wait(ignore)
    assert result.status == "ok", result.reason
    assert not result.left_out
    assert not result.skipped
    (record,) = [r for r in folder.metrics().read() if isinstance(r, RoundRecord)][-1:]
    assert record.answered == ("north",)
    assert record.regions["north"].clients == 1
    # Once, and not again: a second request would have taken as long again.
    assert TRAINING <= record.phases["train"] < 2 * TRAINING


def test_case_18_the_configured_deadline_is_what_ends_it(tmp_path: Path) -> None:
    config = configure(tmp_path, deadline=TRAINING / 3)
    folder = RunFolder.create(config, out=tmp_path / "run")
    with LocalFederation(config, folder) as federation:
        federation.submit()
        result = federation.wait(ignore)
    assert result.status == "failed"
    assert "c0" in result.reason
