"""Small finished runs whose devices hold models, made once per kind of model."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.run.folder import RunFolder


def device_config(kind: str, *, client: dict | None = None, rounds: int = 1, **sections):
    tasks = ["intent", "ner"] if kind == "roberta" else ["intent", "spell", "ner"]
    return FederationConfig.model_validate(
        {
            "run": {"rounds": rounds, "evaluate_every": 0},
            "privacy": {"mode": "off"},
            "data": {
                "regions": 2,
                "clients_per_region": 2,
                "tasks": tasks,
                "builtin": {"train_queries": 24, "validation_queries": 8, "test_queries": 4},
            },
            "model": {"kind": kind, "preset": "tiny"},
            "training": {"steps": 5, "learning_rate": 0.01},
            "client": {"user": {"enabled": True, "steps": 25, "learning_rate": 0.01}}
            if client is None
            else client,
            **sections,
        }
    )


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a finished run of `t5` or `roberta`."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            config = device_config(kind)
            folder = RunFolder.create(config, out=tmp_path_factory.mktemp(kind) / "run")
            simulate(config, folder)
            made[kind] = folder.path
        return made[kind]

    return make
