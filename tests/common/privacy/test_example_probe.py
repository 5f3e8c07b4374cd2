"""Models are tried before they are trained by DP-SGD: refused by layer, with what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.data.types import Row
from regionfed.errors import ExampleLevelRefused, ModelError
from regionfed.models.base import EncodedRows, FederatedModel, RowwiseModel
from regionfed.models.build import build_model
from regionfed.models.config import ModelConfig
from regionfed.models.flat import FlatModel
from regionfed.privacy.example_probe import probe, require_trainable
from regionfed.run.plan import plan_run
from regionfed.tasks.spec import TaskKind, TaskSpec

DIGIT = TaskSpec("digit", TaskKind.IMAGE, ("0", "1", "2"))


def built(model: dict[str, Any], tasks: list[str]) -> tuple[FederatedModel, FederationConfig, Any]:
    config = FederationConfig.model_validate(
        {
            "data": {"tasks": tasks, "regions": 2, "clients_per_region": 2},
            "model": model,
            "training": {"steps": 1},
            "method": {"strategy": "none"},
            "privacy": {"mode": "off", "example_level": True},
        }
    )
    data = open_data(config.data, config.run.seed)
    made = build_model(config.model, tasks=data.tasks, vocabulary=data.vocabulary, seed=1)
    return made, config, data


@pytest.mark.parametrize(
    ("model", "tasks"),
    [
        ({"kind": "roberta", "preset": "tiny"}, ["intent", "ner"]),
        ({"kind": "roberta", "preset": "tiny", "dropout": 0.2}, ["intent"]),
        ({"kind": "roberta", "preset": "tiny", "freeze": "encoder"}, ["intent", "ner"]),
        ({"kind": "t5", "preset": "tiny", "lora": {"rank": 2}}, ["intent", "spell", "ner"]),
    ],
)
def test_what_can_be_trained_passes_and_is_left_as_it_was(
    model: dict[str, Any], tasks: list[str]
) -> None:
    made, config, data = built(model, tasks)
    flat = FlatModel(made.module)
    before = flat.read()
    require_trainable(made, config.model, tasks=data.tasks, vocabulary=data.vocabulary)
    np.testing.assert_array_equal(flat.read(), before)
    assert not any(
        hasattr(p, name)
        for p in made.module.parameters()
        for name in ("grad_sample", "_forward_counter")
    )
    assert not made.module._forward_hooks
    plan_run(config)


@pytest.mark.parametrize(
    ("model", "layers", "fix"),
    [
        ({"kind": "t5", "preset": "tiny"}, ["shared.weight = "], "train LoRA adapters only"),
        (
            {"kind": "t5", "preset": "tiny", "freeze": "embeddings"},
            [
                "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            ],
            "freeze it, or train LoRA adapters or a head only",
        ),
    ],
)
def test_text_models_are_refused_by_layer_in_the_plan(
    model: dict[str, Any], layers: list[str], fix: str
) -> None:
    made, config, data = built(model, ["intent", "spell"])
    with pytest.raises(ExampleLevelRefused) as at_start:
        require_trainable(made, config.model, tasks=data.tasks, vocabulary=data.vocabulary)
    with pytest.raises(ModelError) as planned:
        plan_run(config)
    for layer in layers:
        assert layer in str(at_start.value)
        assert layer in str(planned.value)
    assert fix in str(planned.value)


def images(**changes: Any) -> tuple[FederatedModel, ModelConfig]:
    config = ModelConfig(kind="cnn", d_model=8, layers=1, **changes)
    return build_model(config, tasks=(DIGIT,), seed=1), config


def test_a_cnn_passes_and_batchnorm_is_refused_layer_by_layer() -> None:
    for changes in ({}, {"cnn": "resnet", "freeze": "encoder"}):
        made, config = images(**changes)
        require_trainable(made, config, tasks=(DIGIT,), vocabulary=lambda: ())
    made, config = images(cnn="resnet")
    norms = [name for name, m in made.module.named_modules() if isinstance(m, nn.BatchNorm2d)]
    with pytest.raises(ExampleLevelRefused) as caught:
        require_trainable(made, config, tasks=(DIGIT,), vocabulary=lambda: ())
    assert len(norms) > 3
    assert all(f"{name} (BatchNorm2d)" in str(caught.value) for name in norms)
    assert str(caught.value).count("GroupNorm") >= len(norms)


class _Own(FederatedModel):
    """A user's own model; `coupled` lets rows influence each other where no type shows it."""

    def __init__(self, *, coupled: bool = False) -> None:
        self.module = nn.Linear(3, 2)
        self.coupled = coupled

    def encode(self, rows: Sequence[Row]) -> EncodedRows:
        inputs = [[float(value) for value in row.text.split()] for row in rows]
        labels = [int(row.target) for row in rows]
        return EncodedRows(
            tensors={"x": torch.tensor(inputs), "y": torch.tensor(labels)}, rows=rows
        )

    def row_losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        scores = self.module(batch["x"])
        if self.coupled:
            scores = scores - scores.mean(0)
        return nn.functional.cross_entropy(scores, batch["y"], reduction="none")

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        return self.row_losses(batch).mean()

    def predict(self, batch: Mapping[str, Tensor]) -> list[str]:
        return [str(best) for best in self.module(batch["x"]).argmax(1).tolist()]


class _OwnRowwise(_Own, RowwiseModel):
    pass


def test_a_model_of_ones_own_is_tried_on_the_clients_rows() -> None:
    rows = [Row("t", "1 0 2", "0"), Row("t", "0 3 1", "1"), Row("t", "2 1 1", "1")]
    config = ModelConfig(kind="factory", factory="a:b")
    for model in (_OwnRowwise(), _OwnRowwise(coupled=True)):
        require_trainable(model, config, tasks=(), vocabulary=lambda: ())
    probe(_OwnRowwise(), _OwnRowwise().encode(rows))
    with pytest.raises(ExampleLevelRefused, match="weight: it is used"):
        probe(_OwnRowwise(coupled=True), _OwnRowwise().encode(rows))
    with pytest.raises(ExampleLevelRefused, match="RowwiseModel"):
        require_trainable(_Own(), config, tasks=(), vocabulary=lambda: ())
