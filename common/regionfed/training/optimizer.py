"""One optimizer for one flat tensor, made afresh for every round."""

from __future__ import annotations

import torch
from torch import nn

from regionfed.training.config import TrainingConfig


def make_optimizer(weights: nn.Parameter, config: TrainingConfig) -> torch.optim.Optimizer:
    """SGD, Adam (Kingma & Ba 2015) or AdamW (Loshchilov & Hutter 2019) over `weights`.

    All weights are one tensor, so a step is one pass over memory.
    """
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            [weights],
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            fused=True,
        )
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind([weights], lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
