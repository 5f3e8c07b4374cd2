"""The same configuration gives the same model in one process and over gRPC, bit for bit (case 30)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regionfed.config.federation import FederationConfig
from regionfed.engine import simulate
from regionfed.errors import DataError
from regionfed.launch import LocalFederation
from regionfed.run.folder import RunFolder

HANDWRITING = Path("handwriting") / "char74k_hnd62_28x28.npz"

MODELS: dict[str, dict[str, Any]] = {
    "t5": {"model": {"kind": "t5", "preset": "tiny"}, "data": {}},
    "letters": {"model": {"kind": "t5", "preset": "tiny", "tokenizer": "letters"}, "data": {}},
    "roberta": {
        "model": {"kind": "roberta", "preset": "tiny"},
        "data": {"tasks": ["intent", "ner"]},
    },
    "cnn": {"model": {"kind": "cnn", "cnn": "resnet"}, "data": {"source": "handwriting"}},
}


def configure(kind: str) -> FederationConfig:
    chosen = MODELS[kind]
    data = {"regions": 2, "clients_per_region": 2, **chosen["data"]}
    if data.get("source", "builtin") == "builtin":
        data["builtin"] = {"train_queries": 24, "validation_queries": 6, "test_queries": 6}
    return FederationConfig.model_validate(
        {
            "run": {"rounds": 2, "seed": 7},
            "data": data,
            "model": chosen["model"],
            "training": {"steps": 2, "batch_size": 8},
            "method": {"strategy": "residual"},
            "privacy": {"mode": "off"},
        }
    )


def final(folder: RunFolder) -> dict[str, np.ndarray]:
    checkpoint = folder.checkpoints(1).load_latest()
    assert checkpoint is not None
    assert checkpoint.round == 2
    return checkpoint.arrays


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(MODELS))
def test_simulate_and_up_end_with_the_same_bits(tmp_path: Path, kind: str) -> None:
    config = configure(kind)
    if kind == "cnn":
        try:
            root = config.data.data_root()
        except DataError:
            pytest.skip("REGIONFED_DATA names no folder of real data")
        assert (root / HANDWRITING).is_file()
    alone = RunFolder.create(config, out=tmp_path / "simulate")
    result = simulate(config, alone)
    processes = RunFolder.create(config, out=tmp_path / "up")
    deployed = LocalFederation(config, processes).run()
    assert deployed.status == result.status == "ok"
    one, other = final(alone), final(processes)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name
    assert deployed.overall == result.overall
