"""Small finished runs whose devices hold models, made once per kind of model."""

from collections.abc import Callable
from pathlib import Path

import pytest
from device_runs import device_config

from regionfed.engine import simulate
from regionfed.run.folder import RunFolder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a finished run of `t5`, `letters` or `roberta`."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            config = device_config(kind)
            folder = RunFolder.create(config, out=tmp_path_factory.mktemp(kind) / "run")
            simulate(config, folder)
            made[kind] = folder.path
        return made[kind]

    return make
