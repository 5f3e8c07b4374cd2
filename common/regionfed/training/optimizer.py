"""An optimizer made afresh for every round."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from regionfed.training.config import TrainingConfig


def make_optimizer(
    weights: nn.Parameter | Sequence[nn.Parameter], config: TrainingConfig
) -> torch.optim.Optimizer:
    """SGD, Adam (Kingma & Ba 2015) or AdamW (Loshchilov & Hutter 2019) over `weights`.

    One flat tensor makes a step one pass over memory; several are for DP-SGD, whose gradients
    come parameter by parameter.
    """
    tensors = [weights] if isinstance(weights, nn.Parameter) else list(weights)
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            tensors,
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            fused=True,
        )
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(tensors, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
