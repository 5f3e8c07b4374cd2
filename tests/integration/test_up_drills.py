"""Real processes, and what dies among them: the run completes with the undisturbed result.

Cases 5, 8, 25 and 30 on this machine. Each drill kills one process (SIGKILL) once the first round
is under way; noise is off and all clients take part, so the model must be that of `simulate`, bit
for bit.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import psutil
import pytest
from convex_model import WIDTH

from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.launch import LocalFederation
from regionfed.run.folder import RunFolder
from regionfed.run.progress import ProgressEvent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

CLIENTS = ("c0", "c1")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> FederationConfig:
    path = tmp_path_factory.mktemp("data") / "rows.jsonl"
    rng = np.random.default_rng(5)
    with path.open("w") as file:
        for client in CLIENTS:
            for split in ("train", "validation", "test"):
                for row in rng.standard_normal((8, WIDTH)).round(3):
                    text = " ".join(map(str, row))
                    fields = {"text": text, "target": str(row.sum()), "split": split}
                    file.write(json.dumps({**fields, "region": "north", "client": client}) + "\n")
    return FederationConfig.model_validate(
        {
            "run": {"rounds": 2, "evaluate_every": 0},
            "data": {
                "source": "files",
                "custom": {"regression": {"kind": "text"}},
                "files": {
                    "path": str(path),
                    "task": "regression",
                    "region_column": "region",
                    "client_column": "client",
                    "split_column": "split",
                },
            },
            "model": {"kind": "factory", "factory": "convex_model:regression"},
            "training": {"optimizer": "sgd", "learning_rate": 0.1, "steps": 3, "batch_size": 8},
            "coordinator": {"quorum": 2},
            "method": {"strategy": "residual"},
            "privacy": {"mode": "off"},
        }
    )


def theta(folder: RunFolder) -> np.ndarray:
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    return checkpoint.arrays["theta"]


@pytest.fixture(scope="module")
def undisturbed(config: FederationConfig, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    folder = RunFolder.create(config, out=tmp_path_factory.mktemp("simulate") / "run")
    assert simulate(config, folder).status == "ok"
    return theta(folder)


@pytest.fixture(autouse=True)
def _factory_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def left_behind(folder: RunFolder) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("REGIONFED_RUN_DIR") == str(folder.path.resolve())
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()[:3]))
        except (psutil.Error, OSError):
            continue
    return found


@pytest.mark.parametrize(
    "victim",
    [
        "nobody",
        "north/c0",
        "north/daemon",
        "north/uplink",
        "north/superlink",
        "north/serverapp",
        "global/superlink",
        "global/serverapp",
    ],
)
def test_the_run_completes_with_the_undisturbed_model(
    victim: str, config: FederationConfig, undisturbed: np.ndarray, tmp_path: Path
) -> None:
    folder = RunFolder.create(config, out=tmp_path / "run")
    killed: list[int] = []

    with LocalFederation(config, folder) as federation:

        def strike(event: ProgressEvent) -> None:
            under_way = event.tier == "server" and event.phase == "train" and event.round == 1
            if victim != "nobody" and under_way and not killed:
                killed.append(federation.kill(victim))

        federation.submit()
        result = federation.wait(strike)

    assert result.status == "ok", result.reason
    assert len(killed) == (victim != "nobody")
    assert result.skipped == ()
    np.testing.assert_array_equal(theta(folder), undisturbed)
    assert left_behind(folder) == []
    assert (folder.logs / "global-serverapp.log").stat().st_size > 0
