"""`[method.fedprox]`, `[method.ditto]`, `[method.fedbabu]`: published systems run in RegionFed's place.

They give regions no part of their own. FedProx and SCAFFOLD serve one model to all; Ditto and
FedBABU serve one per device, which stays there.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regionfed.config.base import Section

RivalName = Literal["fedprox", "scaffold", "ditto", "fedbabu"]

RIVALS: tuple[RivalName, ...] = ("fedprox", "scaffold", "ditto", "fedbabu")
"""Every rival by its name in `method.strategy`."""
ON_DEVICES: tuple[RivalName, ...] = ("ditto", "fedbabu")
"""Rivals whose devices serve models of their own."""
REMEMBERING: tuple[RivalName, ...] = ("scaffold", "ditto")
"""Rivals whose devices keep a vector from round to round."""

COUNTED = "counted"
"""SCAFFOLD's key in an order's shared scalars: by region, the last round whose release c holds."""


class FedProxConfig(Section):
    """FedProx (Li et al., MLSys 2020): mu/2*||w - theta_t||^2 in every client's loss."""

    mu: float = Field(default=0.01, ge=0, description="Weight of the pull; 0 is FedAvg.")


class DittoConfig(Section):
    """Ditto (Li et al., ICML 2021): a personal model v_i under strength/2*||v_i - theta_t||^2."""

    strength: float = Field(
        default=0.1, ge=0, description="lambda, the pull of theta_t; 0 is local training."
    )


class FedBabuConfig(Section):
    """FedBABU (Oh et al., ICLR 2022): the body is federated, then each device tunes."""

    tune: Literal["all", "head"] = Field(
        default="all", description="What a device tunes after the last round."
    )
    steps: int = Field(default=20, ge=1, description="Local steps of that.")
    learning_rate: float = Field(default=1e-3, gt=0, description="Their step size.")
