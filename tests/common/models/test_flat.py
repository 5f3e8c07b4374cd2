"""The flat vector: what is in it, and that it is the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regionfed.errors import ModelError, UpdateError
from regionfed.models.flat import FlatLayout, FlatModel


class Tied(nn.Module):
    """An embedding that is also the output layer, a frozen part, and BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.hidden = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embed.weight
        self.fixed = nn.Linear(2, 2).requires_grad_(False)
        self.register_buffer("rebuilt", torch.ones(7), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out(self.norm(self.hidden(self.embed(ids))))
        return out


def test_tied_weights_count_once_and_frozen_ones_not_at_all() -> None:
    layout = FlatLayout.of(Tied())
    assert layout.names == (
        "embed.weight",
        "hidden.weight",
        "hidden.bias",
        "norm.weight",
        "norm.bias",
    )
    assert layout.size == 15 + 9 + 3 + 3 + 3
    assert layout.offsets == (0, 15, 24, 27, 30, 33)
    assert layout.tied == (("embed.weight", "out.weight"),)


def test_order_is_that_of_named_parameters_and_values_are_kept() -> None:
    module = Tied()
    expected = torch.cat(
        [p.detach().reshape(-1) for p in module.parameters() if p.requires_grad]
    ).numpy()
    np.testing.assert_array_equal(FlatModel(module).read(), expected)


def test_write_reaches_both_ends_of_a_tie() -> None:
    flat = FlatModel(Tied())
    flat.write(np.arange(33, dtype=np.float32))
    assert flat.module.embed.weight[0].tolist() == [0.0, 1.0, 2.0]
    assert flat.module.out.weight is flat.module.embed.weight
    assert flat.module.norm.bias.tolist() == [30.0, 31.0, 32.0]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_round_trip(seed: int) -> None:
    flat = FlatModel(Tied())
    vector = np.random.default_rng(seed).normal(size=33).astype(np.float32)
    flat.write(vector)
    np.testing.assert_array_equal(flat.read(), vector)


def test_read_copies_unless_told_otherwise() -> None:
    flat = FlatModel(Tied())
    copy, view = flat.read(), flat.read(copy=False)
    flat.write(np.zeros(33, dtype=np.float32))
    assert copy.any()
    assert not view.any()


def test_optimizers_over_parameters_and_over_the_flat_tensor_agree() -> None:
    def run(over_flat: bool) -> np.ndarray:
        torch.manual_seed(0)
        flat = FlatModel(Tied())
        chosen = (
            [flat.weights]
            if over_flat
            else [p for p in flat.module.parameters() if p.requires_grad]
        )
        optimizer = torch.optim.Adam(chosen, lr=0.1)
        for _ in range(3):
            flat.open_gradient()
            flat.module(torch.arange(5)).square().sum().backward()
            optimizer.step()
        assert flat.module.out.weight is flat.module.embed.weight
        return flat.read()

    np.testing.assert_allclose(run(True), run(False), rtol=1e-5, atol=1e-6)


def test_gradient_is_one_vector_and_can_be_given_back() -> None:
    flat = FlatModel(Tied())
    gradient = flat.open_gradient()
    flat.module(torch.arange(5)).sum().backward()
    assert flat.module.hidden.bias.grad is not None
    assert torch.equal(gradient[24:27], flat.module.hidden.bias.grad)
    flat.close_gradient()
    assert flat.module.hidden.bias.grad is None
    assert flat.weights.grad is None


def test_buffers_are_a_second_vector_without_integers_and_constants() -> None:
    flat = FlatModel(Tied())
    assert flat.buffer_layout.names == ("norm.running_mean", "norm.running_var")
    assert flat.integer_buffers == ("norm.num_batches_tracked",)
    before = flat.read()
    flat.write_buffers(np.arange(6, dtype=np.float32))
    assert flat.module.norm.running_var.tolist() == [3.0, 4.0, 5.0]
    np.testing.assert_array_equal(flat.read_buffers(), np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(flat.read(), before)
    assert int(flat.module.norm.num_batches_tracked) == 0


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        (np.zeros(32, dtype=np.float32), r"\(33,\)"),
        (np.zeros((33, 1), dtype=np.float32), r"\(33, 1\)"),
        (np.zeros(33, dtype=np.float64), "float64"),
        (np.full(33, np.nan, dtype=np.float32), "33 of 33"),
        (np.array([np.inf, -np.inf] + [0.0] * 31, dtype=np.float32), "2 of 33"),
    ],
)
def test_a_bad_vector_is_refused_and_changes_nothing(vector: np.ndarray, says: str) -> None:
    flat = FlatModel(Tied())
    before = flat.read()
    with pytest.raises(UpdateError, match=says):
        flat.write(vector)
    np.testing.assert_array_equal(flat.read(), before)


def test_the_largest_floats_are_finite() -> None:
    flat = FlatModel(Tied())
    flat.write(np.full(33, np.finfo(np.float32).max, dtype=np.float32))


def test_buffers_of_the_wrong_size_are_refused() -> None:
    with pytest.raises(UpdateError, match="buffer vector"):
        FlatModel(Tied()).write_buffers(np.zeros(5, dtype=np.float32))


def test_digest_follows_names_and_shapes_only() -> None:
    first, second = FlatLayout.of(Tied()), FlatLayout.of(Tied())
    assert first.digest() == second.digest()
    assert FlatLayout.of(nn.Linear(2, 3)).digest() != FlatLayout.of(nn.Linear(3, 2)).digest()


def test_mask_picks_by_name() -> None:
    layout = FlatLayout.of(Tied())
    mask = layout.mask(lambda name: name.startswith("norm."))
    assert mask.shape == (33,)
    assert np.flatnonzero(mask).tolist() == list(range(27, 33))


def test_trainable_half_precision_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'weight'.*bfloat16"):
        FlatLayout.of(nn.Linear(2, 2).bfloat16())


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(ModelError, match="no trainable parameter"):
        FlatLayout.of(nn.Linear(2, 2).requires_grad_(False))
