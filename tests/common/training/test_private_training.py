"""DP-SGD on a client: what it computes, what it adds, and what it leaves behind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from toy_training import DIGIT, INTENT, Toy, image_rows, text_rows

from regionfed.errors import DataError, UpdateError
from regionfed.models.build import build_model
from regionfed.models.config import ModelConfig
from regionfed.models.flat import FlatModel
from regionfed.privacy.config import ExampleConfig
from regionfed.training.config import TrainingConfig
from regionfed.training.local import local_train
from regionfed.training.private import private_event, private_train

NO_NOISE = ExampleConfig(noise_multiplier=1e-14, clipping_norm=1e4)


def toy(kind: str, rows: int) -> Toy:
    if kind == "cnn":
        model = build_model(ModelConfig(kind="cnn", d_model=8), tasks=(DIGIT,), seed=1)
        data, tasks = model.encode(image_rows(rows, seed=2)), (DIGIT,)
    else:
        config = ModelConfig(kind="roberta", preset="tiny")
        model = build_model(config, tasks=(INTENT,), vocabulary=["w1", "w2"], seed=1)
        data, tasks = model.encode(text_rows(rows, seed=2, tasks=(INTENT,))), (INTENT,)
    return Toy(model, FlatModel(model.module), data, tasks)


def sgd(**changes: object) -> TrainingConfig:
    values = {"optimizer": "sgd", "learning_rate": 0.1, "steps": 3, "batch_size": 64}
    return TrainingConfig.model_validate({**values, **changes})


@pytest.mark.parametrize("kind", ["cnn", "roberta"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_without_noise_and_with_whole_batches_it_is_local_training(
    kind: str, optimizer: str
) -> None:
    made = toy(kind, 24)
    start = made.flat.read()
    config = sgd(optimizer=optimizer, learning_rate=0.1 if optimizer == "sgd" else 0.003)
    plain = local_train(made.model, made.flat, made.data, config, seed=5, start=start)
    found = private_train(made.model, made.flat, made.data, config, NO_NOISE, seed=5, start=start)
    # Adam turns gradients that are zero but for rounding into steps of any size.
    apart = float(np.linalg.norm(found.update - plain.update) / np.linalg.norm(plain.update))
    assert apart < (1e-4 if optimizer == "sgd" else 0.03)
    assert (found.steps, found.examples) == (3, 24)
    np.testing.assert_allclose(made.flat.read(), start - found.update, atol=1e-6)


def test_every_rows_gradient_is_clipped_and_the_sum_is_noised() -> None:
    made = toy("cnn", 32)
    start = made.flat.read()
    one = sgd(steps=1, learning_rate=1.0)
    tight = ExampleConfig(noise_multiplier=1e-9, clipping_norm=0.01)
    bounded = private_train(made.model, made.flat, made.data, one, tight, seed=5, start=start)
    # The mean of 32 gradients of norm 0.01 at most.
    assert np.linalg.norm(bounded.update) <= 0.01 * (1 + 1e-5)
    noisy = ExampleConfig(noise_multiplier=50.0, clipping_norm=0.01)
    first, second = (
        private_train(made.model, made.flat, made.data, one, noisy, seed=5, start=start).update
        for _ in range(2)
    )
    # sigma*C over the 32 rows that a batch has, and not the same twice under one seed.
    expected = 50.0 * 0.01 / 32
    assert float(np.std(first - bounded.update)) == pytest.approx(expected, rel=0.05)
    assert abs(float(np.corrcoef(first, second)[0, 1])) < 0.2


def test_rows_are_drawn_at_the_rate_that_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    made = toy("roberta", 40)
    drawn: list[int] = []
    original = made.data.batch

    def batch(index: torch.Tensor, device: torch.device) -> dict[str, torch.Tensor]:
        drawn.append(len(index))
        return original(index, device)

    object.__setattr__(made.data, "batch", batch)
    config = sgd(steps=200, batch_size=4, learning_rate=1e-3)
    private_train(
        made.model, made.flat, made.data, config, ExampleConfig(), seed=5, start=made.flat.read()
    )
    event = private_event(40, config, ExampleConfig(), client="c", round=1)
    assert (event.sample_rate, event.steps) == (0.1, 200)
    # Empty batches were drawn too; they are steps of noise alone.
    assert len(drawn) < 200
    assert sum(drawn) == pytest.approx(40 * 0.1 * 200, abs=5 * math.sqrt(40 * 200 * 0.1 * 0.9))
    assert len(set(drawn)) > 4


def test_it_leaves_an_ordinary_model_behind() -> None:
    made = toy("roberta", 12)
    start = made.flat.read()
    config = sgd()
    before = local_train(made.model, made.flat, made.data, config, seed=5, start=start)
    state = torch.random.get_rng_state()
    private_train(made.model, made.flat, made.data, config, ExampleConfig(), seed=5, start=start)
    assert torch.equal(torch.random.get_rng_state(), state)
    leftovers = ("grad_sample", "summed_grad", "_forward_counter")
    assert not any(hasattr(p, name) for p in made.model.module.parameters() for name in leftovers)
    assert not any(m._forward_hooks or m._backward_hooks for m in made.model.module.modules())
    after = local_train(made.model, made.flat, made.data, config, seed=5, start=start)
    np.testing.assert_array_equal(after.update, before.update)


def test_bad_starts_and_no_rows_are_refused() -> None:
    made = toy("cnn", 8)
    start = made.flat.read()
    with pytest.raises(UpdateError, match="shape"):
        private_train(
            made.model, made.flat, made.data, sgd(), NO_NOISE, seed=1, start=start[:-1].copy()
        )
    none = made.model.encode([])
    with pytest.raises(DataError, match="no rows"):
        private_train(made.model, made.flat, none, sgd(), NO_NOISE, seed=1, start=start)
    with pytest.raises(DataError, match="no rows"):
        private_event(0, sgd(), NO_NOISE, client="c", round=1)
    with pytest.raises(UpdateError, match="lower"):
        private_train(
            made.model,
            made.flat,
            made.data,
            sgd(steps=40, learning_rate=1e30),
            ExampleConfig(noise_multiplier=1e6),
            seed=1,
            start=start,
        )
