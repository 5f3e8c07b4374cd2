"""Example-level DP-SGD: refusals by layer, real training, and Opacus' accountant beside ours."""

from __future__ import annotations

import pytest
import torch
from opacus.accountants import PRVAccountant
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from regionfed.errors import ModelError, PrivacyError
from regionfed.privacy.accountant import example_level_epsilon
from regionfed.privacy.events import Unit
from regionfed.privacy.example_level import make_private, refusals, require_supported


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight


@pytest.mark.parametrize(
    ("module", "layer", "fix"),
    [
        (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), "1 (BatchNorm1d)", "GroupNorm"),
        (Tied(), "embedding.weight = head.weight", "untie"),
        (nn.Sequential(nn.LSTM(2, 3)), "0 (LSTM)", "DPLSTM"),
        (
            nn.Sequential(nn.MultiheadAttention(4, 2)),
            "0 (MultiheadAttention)",
            "DPMultiheadAttention",
        ),
    ],
)
def test_refusals_name_layer_and_fix(module: nn.Module, layer: str, fix: str) -> None:
    (found,) = [item for item in refusals(module) if layer in item.layer]
    assert fix in found.fix
    with pytest.raises(ModelError) as refused:
        require_supported(module)
    assert layer in str(refused.value)
    assert fix in str(refused.value)


def test_frozen_layers_are_not_refused() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    module[1].requires_grad_(False)
    (found,) = refusals(module)
    assert "statistics of the batch" in found.reason
    module[1].eval()
    assert refusals(module) == []


def setting() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    data = TensorDataset(x, (x.sum(1) > 0).long())
    module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    return module, torch.optim.SGD(module.parameters(), lr=0.5), DataLoader(data, batch_size=16)


def train(seed: int) -> tuple[torch.Tensor, int, object]:
    module, optimizer, loader = setting()
    torch.manual_seed(seed)
    private = make_private(module, optimizer, loader, noise_multiplier=1.0, max_grad_norm=1.0)
    steps = 0
    for x, y in private.loader:
        private.optimizer.zero_grad()
        nn.functional.cross_entropy(private.module(x), y).backward()
        private.optimizer.step()
        steps += 1
    return torch.cat([p.detach().flatten() for p in module.parameters()]), steps, private


def test_training_is_noised_and_recorded_as_its_own_unit() -> None:
    before = torch.cat([p.detach().flatten() for p in setting()[0].parameters()])
    after, steps, private = train(seed=0)
    assert not torch.allclose(before, after)
    assert private.sample_rate == 0.25
    event = private.event(client="c1", round=3, steps=steps)
    assert event.unit is Unit.EXAMPLE
    assert (event.steps, event.sample_rate, event.noise_multiplier) == (4, 0.25, 1.0)


def test_a_public_seed_does_not_fix_the_noise() -> None:
    assert not torch.allclose(train(seed=0)[0], train(seed=0)[0])


def test_refused_models_are_left_alone() -> None:
    _, _, loader = setting()
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with pytest.raises(ModelError, match="1 refusals"):
        make_private(module, optimizer, loader, noise_multiplier=1.0, max_grad_norm=1.0)
    with pytest.raises(PrivacyError, match="positive"):
        make_private(*setting(), noise_multiplier=0.0, max_grad_norm=1.0)


@pytest.mark.parametrize(
    ("sigma", "expected"), [(1, 5.1493), (2, 1.6535), (4, 0.6852), (8, 0.3086), (16, 0.1429)]
)
def test_opacus_prv_agrees_with_ours(sigma: float, expected: float) -> None:
    _, _, private = train(seed=0)
    event = type(private)(None, None, None, sigma, 0.1).event(client="c", round=0, steps=50)
    ours = example_level_epsilon([event], delta=1e-5)["c"]
    prv = PRVAccountant()
    prv.history = [(sigma, 0.1, 50)]
    theirs = prv.get_epsilon(1e-5, eps_error=0.001)
    assert theirs == pytest.approx(expected, abs=5e-4)
    assert ours <= theirs <= ours + 0.0015
