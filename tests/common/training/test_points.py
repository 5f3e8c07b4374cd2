"""Gradients, losses along a direction, and scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy_training import toy

from regionfed.errors import DataError, UpdateError
from regionfed.tasks import metrics
from regionfed.training.config import TrainingConfig
from regionfed.training.evaluate import counts, losses_at, mean_loss, predictions
from regionfed.training.gradient import mean_gradient, multi_step_gradient
from regionfed.training.local import local_train

CONFIG = TrainingConfig(batch_size=7, evaluation_batch_size=5, learning_rate=0.02)


@pytest.mark.parametrize("kind", ["t5", "roberta", "lenet", "resnet"])
def test_gradient_is_the_slope_of_the_mean_loss(kind: str) -> None:
    case = toy(kind)
    base = case.flat.read()
    result = mean_gradient(case.model, case.flat, case.data, CONFIG, at=base)
    along = result.gradient / np.linalg.norm(result.gradient)
    sums, count = losses_at(
        case.model, case.flat, case.data, CONFIG, base=base, direction=along, rhos=[-1e-2, 1e-2]
    )
    slope = (sums[1] - sums[0]) / count / 2e-2
    assert slope == pytest.approx(float(np.linalg.norm(result.gradient)), rel=0.05)


def test_gradient_does_not_depend_on_the_batch_size() -> None:
    case = toy("t5")
    base = case.flat.read()
    small = mean_gradient(case.model, case.flat, case.data, CONFIG, at=base)
    whole = mean_gradient(case.model, case.flat, case.data, TrainingConfig(batch_size=64), at=base)
    np.testing.assert_allclose(small.gradient, whole.gradient, rtol=1e-3, atol=1e-5)
    assert small.loss == pytest.approx(whole.loss, rel=1e-5)


def test_gradient_leaves_weights_and_buffers_alone() -> None:
    case = toy("resnet")
    base, buffers = case.flat.read(), case.flat.read_buffers()
    mean_gradient(case.model, case.flat, case.data, CONFIG)
    np.testing.assert_array_equal(case.flat.read(), base)
    np.testing.assert_array_equal(case.flat.read_buffers(), buffers)


def test_several_steps_add_up_their_gradients() -> None:
    case = toy("t5")
    base = case.flat.read()
    once = multi_step_gradient(case.model, case.flat, case.data, CONFIG, at=base, steps=1, seed=0)
    np.testing.assert_array_equal(
        once.gradient, mean_gradient(case.model, case.flat, case.data, CONFIG, at=base).gradient
    )
    thrice = multi_step_gradient(case.model, case.flat, case.data, CONFIG, at=base, steps=3, seed=0)
    np.testing.assert_allclose(
        case.flat.read(), base - CONFIG.learning_rate * thrice.gradient, rtol=1e-4, atol=1e-6
    )
    assert np.linalg.norm(thrice.gradient) > 1.5 * np.linalg.norm(once.gradient)


def test_losses_along_a_direction_equal_losses_at_written_points() -> None:
    case = toy("t5")
    base = case.flat.read()
    direction = np.random.default_rng(0).normal(0, 0.02, base.shape).astype(np.float32)
    rhos = [0.0, 0.25, 1.0]
    sums, count = losses_at(
        case.model, case.flat, case.data, CONFIG, base=base, direction=direction, rhos=rhos
    )
    np.testing.assert_array_equal(case.flat.read(), base)
    assert count == len(case.data)
    for rho, found in zip(rhos, sums, strict=True):
        case.flat.write(base + np.float32(rho) * direction)
        assert found == pytest.approx(
            mean_loss(case.model, case.flat, case.data, CONFIG)[0], rel=1e-5
        )


def test_losses_of_disjoint_rows_add_up() -> None:
    case = toy("t5")
    halves = [case.model.encode(case.data.rows[:9]), case.model.encode(case.data.rows[9:])]
    parts = [mean_loss(case.model, case.flat, half, CONFIG) for half in halves]
    whole = mean_loss(case.model, case.flat, case.data, CONFIG)
    assert sum(part[0] for part in parts) == pytest.approx(whole[0], rel=1e-5)
    assert sum(part[1] for part in parts) == whole[1] == 24


def test_scores_rise_with_training_and_cover_all_tasks() -> None:
    case = toy("t5")

    def scores() -> dict[str, dict[str, float]]:
        found = counts(case.model, case.flat, case.data, CONFIG, tasks=case.tasks)
        return metrics.score(case.tasks, found)

    before = metrics.overall(scores())
    local_train(
        case.model,
        case.flat,
        case.data,
        TrainingConfig(steps=150, batch_size=24, learning_rate=1e-2),
        seed=0,
    )
    after = scores()
    assert set(after) == {"intent", "spell", "ner"}
    assert metrics.overall(after) > max(0.8, before)
    assert len(predictions(case.model, case.flat, case.data, CONFIG)) == 24


def test_counts_leave_out_tasks_without_rows() -> None:
    case = toy("t5")
    only = case.model.encode([row for row in case.data.rows if row.task == "intent"])
    found = counts(case.model, case.flat, only, CONFIG, tasks=case.tasks)
    assert all(key.startswith("intent/") for key in found)
    assert found["intent/rows"] == len(only)


def test_bad_points_are_refused() -> None:
    case = toy("lenet")
    base = case.flat.read()
    with pytest.raises(UpdateError, match="direction of a search"):
        losses_at(
            case.model,
            case.flat,
            case.data,
            CONFIG,
            base=base,
            direction=base[:-1].copy(),
            rhos=[0.0],
        )
    with pytest.raises(DataError, match="no rows"):
        mean_gradient(case.model, case.flat, case.model.encode([]), CONFIG)


def test_evaluation_keeps_no_graph() -> None:
    case = toy("lenet")
    mean_loss(case.model, case.flat, case.data, CONFIG)
    assert torch.is_grad_enabled()
    assert case.flat.weights.grad is None
