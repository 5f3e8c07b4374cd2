"""Stacked clients give what each of them would have got alone."""

from __future__ import annotations

import numpy as np
import pytest
from toy_training import image_rows, text_rows, toy

from regionfed.errors import UpdateError
from regionfed.training.batched import batched_train, can_stack, choose_mode
from regionfed.training.config import TrainingConfig

CASES = {
    "steps": TrainingConfig(steps=3, batch_size=8, optimizer="sgd", learning_rate=0.05),
    "epochs": TrainingConfig(epochs=2, batch_size=8, optimizer="sgd", learning_rate=0.05),
    "accumulated": TrainingConfig(
        epochs=2,
        batch_size=4,
        accumulation=3,
        optimizer="sgd",
        learning_rate=0.05,
        momentum=0.5,
        clip_gradient=0.5,
    ),
    "adam": TrainingConfig(epochs=1, batch_size=8, learning_rate=1e-3),
}


@pytest.mark.parametrize("kind", ["t5", "roberta", "heads", "lenet"])
@pytest.mark.parametrize("case", list(CASES))
def test_agrees_with_training_one_by_one(kind: str, case: str) -> None:
    one = toy(kind)
    config = CASES[case]
    # Clients of different size, so that some finish before others and batches are short.
    rows = [
        image_rows(n, seed=n) if kind == "lenet" else text_rows(n, seed=n, tasks=one.tasks)
        for n in (5, 24, 13)
    ]
    data = [one.model.encode(each) for each in rows]
    start = one.flat.read()
    starts = np.stack([start, start * np.float32(1.01), start])
    stacked, alone = (
        batched_train(one.model, one.flat, data, config, seeds=[1, 2, 3], starts=starts, mode=mode)
        for mode in ("stacked", "one-by-one")
    )
    for left, right in zip(stacked, alone, strict=True):
        gap = np.linalg.norm(left.update - right.update) / np.linalg.norm(right.update)
        # Adam divides by root mean squares, which magnifies rounding in tiny gradients.
        assert gap < (1e-3 if case == "adam" else 1e-4)
        assert left.loss == pytest.approx(right.loss, rel=1e-4)
        assert (left.steps, left.examples) == (right.steps, right.examples)


def test_one_start_is_shared_by_all_and_stays_untouched() -> None:
    one = toy("heads")
    start = one.flat.read()
    kept = start.copy()
    results = batched_train(
        one.model,
        one.flat,
        [one.data, one.data],
        CASES["steps"],
        seeds=[1, 1],
        starts=start,
        mode="stacked",
    )
    np.testing.assert_allclose(results[0].update, results[1].update, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(start, kept)


def test_batchnorm_is_not_stacked() -> None:
    one = toy("resnet")
    config = CASES["steps"]
    assert not can_stack(one.model, one.flat, config)
    assert choose_mode(one.model, one.flat, config) == "one-by-one"
    with pytest.raises(UpdateError, match="BatchNorm"):
        batched_train(
            one.model,
            one.flat,
            [one.data],
            config,
            seeds=[1],
            starts=one.flat.read(),
            mode="stacked",
        )


def test_small_models_are_stacked_by_themselves() -> None:
    one = toy("heads")
    assert choose_mode(one.model, one.flat, CASES["steps"]) == "stacked"


def test_bad_starts_are_refused() -> None:
    one = toy("heads")
    for starts in (np.zeros(3, dtype=np.float32), np.zeros((2, 3), dtype=np.float32)):
        with pytest.raises(UpdateError):
            batched_train(one.model, one.flat, [one.data], CASES["steps"], seeds=[1], starts=starts)
