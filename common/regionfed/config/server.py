"""`[server]`: what the global server does with the regions' updates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regionfed.config.base import Section


class ServerConfig(Section):
    """The global tier (algorithm section 3, item 3)."""

    optimizer: Literal["sgd", "momentum", "adam"] = Field(
        default="sgd", description="Step on the mean update; all but sgd send g~ to the regions."
    )
    learning_rate: float = Field(default=1.0, gt=0, description="eta of theta - eta*g.")
    momentum: float = Field(
        default=0.9, ge=0, lt=1, description="'momentum': its factor; 'adam': beta1."
    )
    beta2: float = Field(default=0.99, gt=0, lt=1, description="'adam' only.")
    epsilon: float = Field(
        default=1e-3, gt=0, description="'adam': added to the root of the second moment."
    )
    region_weights: Literal["equal", "examples"] = Field(
        default="equal", description="Weight of a region in the global mean."
    )
    min_regions: int = Field(default=1, ge=1, description="Quorum: fewer answers fail the round.")
    round_deadline: float = Field(
        default=600.0, gt=0, description="Seconds for one exchange with regions."
    )
    join_deadline: float = Field(
        default=120.0, gt=0, description="Seconds to wait for regions at start."
    )
    max_failed_rounds: int = Field(
        default=3, ge=1, description="Consecutive rounds under quorum after which the run fails."
    )
