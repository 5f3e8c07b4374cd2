"""Local training: repeatable, honest about its sign, open to the baselines' terms."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from toy_training import Toy, toy

from regionfed.errors import ConfigError, DataError, UpdateError
from regionfed.training.batches import plan_steps, steps_of
from regionfed.training.config import TrainingConfig
from regionfed.training.device import execution, mixed_type, resolve_device
from regionfed.training.evaluate import mean_loss
from regionfed.training.hooks import StepHooks
from regionfed.training.local import local_train
from regionfed.training.seeds import derive_seed

KINDS = ("t5", "roberta", "heads", "lenet", "resnet")
FEW = TrainingConfig(steps=4, batch_size=8, learning_rate=3e-3)
SGD = TrainingConfig(optimizer="sgd", learning_rate=0.05, steps=3, batch_size=8)


@pytest.mark.parametrize("kind", KINDS)
def test_repeats_bit_for_bit_and_seeds_matter(kind: str) -> None:
    case = toy(kind)
    start, buffers = case.flat.read(), case.flat.read_buffers()

    def run(seed: int) -> tuple[np.ndarray, np.ndarray]:
        result = local_train(
            case.model,
            case.flat,
            case.data,
            FEW,
            seed=seed,
            start=start,
            start_buffers=buffers,
        )
        return result.update, result.buffers

    first, second, other = run(1), run(1), run(2)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert (first[0] != other[0]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_loss_falls_and_the_update_points_from_end_to_start(kind: str) -> None:
    case = toy(kind)
    start = case.flat.read()
    config = TrainingConfig(epochs=8, batch_size=8, learning_rate=5e-3)
    before, count = mean_loss(case.model, case.flat, case.data, config)
    result = local_train(case.model, case.flat, case.data, config, seed=0, start=start)
    after, _ = mean_loss(case.model, case.flat, case.data, config)
    assert after < 0.9 * before
    assert (count, result.examples, result.steps) == (24, 24, 24)
    assert result.update.dtype == np.float32
    np.testing.assert_array_equal(result.update, start - case.flat.read())


def test_batchnorm_statistics_are_buffers_not_update() -> None:
    case = toy("resnet")
    before = case.flat.read_buffers()
    result = local_train(case.model, case.flat, case.data, FEW, seed=0)
    assert result.buffers.shape == before.shape == (case.flat.buffer_layout.size,)
    assert (result.buffers != before).any()
    assert result.update.shape == (case.flat.layout.size,)


def test_one_sgd_step_over_all_rows_is_the_gradient() -> None:
    from regionfed.training.gradient import mean_gradient

    case = toy("t5")
    start = case.flat.read()
    config = TrainingConfig(optimizer="sgd", learning_rate=0.1, steps=1, batch_size=24)
    result = local_train(case.model, case.flat, case.data, config, seed=0, start=start)
    gradient = mean_gradient(case.model, case.flat, case.data, config, at=start).gradient
    np.testing.assert_allclose(result.update, 0.1 * gradient, rtol=1e-3, atol=1e-6)


def test_accumulated_batches_equal_one_large_batch() -> None:
    case = toy("t5")
    start = case.flat.read()

    def run(size: int, accumulation: int) -> np.ndarray:
        config = TrainingConfig(
            optimizer="sgd", learning_rate=0.1, epochs=1, batch_size=size, accumulation=accumulation
        )
        return local_train(case.model, case.flat, case.data, config, seed=3, start=start).update

    np.testing.assert_allclose(run(8, 3), run(24, 1), rtol=1e-3, atol=1e-6)


def test_empty_hooks_change_nothing_bit_for_bit() -> None:
    case = toy("t5")
    start = case.flat.read()
    zero = np.zeros_like(start)
    plain = local_train(case.model, case.flat, case.data, FEW, seed=0, start=start)
    hooks = StepHooks(correction=zero, trained=np.ones(start.shape, dtype=bool))
    hooked = local_train(case.model, case.flat, case.data, FEW, seed=0, start=start, hooks=hooks)
    np.testing.assert_array_equal(plain.update, hooked.update)


def test_correction_is_added_to_every_gradient() -> None:
    case = toy("lenet")
    start = case.flat.read()
    one = SGD.model_copy(update={"steps": 1})
    shift = np.full_like(start, 0.5)
    plain = local_train(case.model, case.flat, case.data, one, seed=0, start=start)
    moved = local_train(
        case.model,
        case.flat,
        case.data,
        one,
        seed=0,
        start=start,
        hooks=StepHooks(correction=shift),
    )
    np.testing.assert_allclose(moved.update - plain.update, 0.05 * shift, rtol=1e-3, atol=1e-6)


def test_proximal_term_holds_the_client_near_its_anchor() -> None:
    case = toy("lenet")
    start = case.flat.read()
    free = local_train(case.model, case.flat, case.data, SGD, seed=0, start=start)
    held = local_train(
        case.model,
        case.flat,
        case.data,
        SGD,
        seed=0,
        start=start,
        hooks=StepHooks(proximal=10.0),
    )
    assert np.linalg.norm(held.update) < np.linalg.norm(free.update)
    anchor = start + 1.0
    one = SGD.model_copy(update={"steps": 1})
    plain = local_train(case.model, case.flat, case.data, one, seed=0, start=start)
    pulled = local_train(
        case.model,
        case.flat,
        case.data,
        one,
        seed=0,
        start=start,
        hooks=StepHooks(proximal=2.0, anchor=anchor),
    )
    np.testing.assert_allclose(
        plain.update - pulled.update, np.full_like(start, 0.1), rtol=1e-2, atol=1e-5
    )


def test_elements_that_are_not_trained_stay_bit_for_bit() -> None:
    case = toy("roberta")
    start = case.flat.read()
    body = case.flat.layout.mask(lambda name: not name.startswith(case.model.head))
    config = TrainingConfig(optimizer="adamw", weight_decay=0.1, steps=3, batch_size=8)
    result = local_train(
        case.model,
        case.flat,
        case.data,
        config,
        seed=0,
        start=start,
        hooks=StepHooks(trained=body),
    )
    assert not result.update[~body].any()
    assert result.update[body].any()
    np.testing.assert_array_equal(case.flat.read()[~body], start[~body])


def test_clipped_step_has_the_given_length() -> None:
    case = toy("lenet")
    config = TrainingConfig(
        optimizer="sgd", learning_rate=1.0, steps=1, batch_size=8, clip_gradient=0.01
    )
    result = local_train(case.model, case.flat, case.data, config, seed=0)
    assert np.linalg.norm(result.update) == pytest.approx(0.01, rel=1e-4)


def test_bf16_on_the_cpu_learns_with_float32_weights() -> None:
    case = toy("t5")
    config = TrainingConfig(epochs=4, batch_size=8, learning_rate=5e-3, precision="bf16")
    before, _ = mean_loss(case.model, case.flat, case.data, config)
    result = local_train(case.model, case.flat, case.data, config, seed=0)
    assert mean_loss(case.model, case.flat, case.data, config)[0] < before
    assert result.update.dtype == np.float32


def test_no_gradient_memory_is_kept_between_rounds() -> None:
    case = toy("t5")
    local_train(case.model, case.flat, case.data, FEW, seed=0)
    assert case.flat.weights.grad is None
    assert all(p.grad is None for p in case.model.module.parameters())


def test_global_settings_and_random_state_are_left_alone() -> None:
    case = toy("lenet")
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    local_train(case.model, case.flat, case.data, FEW, seed=0)
    assert torch.equal(torch.rand(1), expected)
    assert not torch.are_deterministic_algorithms_enabled()


def test_divergence_and_missing_rows_are_errors() -> None:
    case = toy("lenet")
    wild = TrainingConfig(optimizer="sgd", learning_rate=1e30, steps=4, batch_size=8)
    with pytest.raises(UpdateError, match=r"training.learning_rate"):
        local_train(case.model, case.flat, case.data, wild, seed=0)
    with pytest.raises(DataError, match="no rows"):
        local_train(case.model, case.flat, case.model.encode([]), FEW, seed=0)


def test_plan_covers_each_epoch_and_cycles_for_steps() -> None:
    epochs = TrainingConfig(epochs=2, batch_size=4)
    plan = plan_steps(10, epochs, seed=0)
    assert [len(index) for step in plan for index in step] == [4, 4, 2, 4, 4, 2]
    assert len(plan) == steps_of(10, epochs) == 6
    first = torch.cat([step[0] for step in plan[:3]])
    second = torch.cat([step[0] for step in plan[3:]])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(10))
    assert first.tolist() != second.tolist()
    steps = plan_steps(10, TrainingConfig(steps=7, batch_size=4, accumulation=2), seed=0)
    assert [len(step) for step in steps] == [2] * 7


def test_seed_is_equal_in_every_process_and_parts_do_not_run_together() -> None:
    assert derive_seed(7, 1, "c00") != derive_seed(7, 1, "c01")
    assert derive_seed("ab", "c") != derive_seed("a", "bc")
    assert derive_seed(1) != derive_seed("1")
    code = "from regionfed.training.seeds import derive_seed; print(derive_seed(7, 1, 'c00'))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(out.stdout) == derive_seed(7, 1, "c00") < 2**63


def test_device_falls_back_to_the_cpu_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device(TrainingConfig(device="cuda")).type == "cpu"
    assert "no GPU is usable" in caplog.text
    assert resolve_device(TrainingConfig(device="auto")).type == "cpu"


def test_precision_by_device() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert mixed_type(TrainingConfig(precision="auto"), cpu) is None
    assert mixed_type(TrainingConfig(precision="fp16"), gpu) is torch.float16
    with pytest.raises(ConfigError, match="fp16"):
        mixed_type(TrainingConfig(precision="fp16"), cpu)


def test_threads_hold_for_the_block_only() -> None:
    before = torch.get_num_threads()
    with execution(TrainingConfig(threads=before + 1), torch.device("cpu")):
        assert torch.get_num_threads() == before + 1
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    "given", [{"epochs": 1, "steps": 1}, {"momentum": 0.9}, {"learning_rate": 0}]
)
def test_contradictions_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TrainingConfig.model_validate(given)


def test_training_does_not_depend_on_who_trained_before() -> None:
    def train(case: Toy, start: np.ndarray) -> np.ndarray:
        return local_train(case.model, case.flat, case.data, FEW, seed=5, start=start).update

    fresh, used = toy("t5"), toy("t5")
    start = fresh.flat.read()
    local_train(used.model, used.flat, used.data, FEW, seed=99)
    np.testing.assert_array_equal(train(fresh, start), train(used, start))
