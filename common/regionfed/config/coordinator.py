"""`[coordinator]`: how a region runs its part of a round."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regionfed.config.base import Section


class CoordinatorConfig(Section):
    """The regional tier."""

    client_weights: Literal["equal", "examples"] = Field(
        default="equal",
        description="Weight of a client in its region's mean; with DP on only `equal`.",
    )
    cohort: int = Field(
        default=0, ge=0, description="Clients asked to train per round; 0 means all."
    )
    quorum: int = Field(
        default=1, ge=1, description="Fewest client answers for the region to take part."
    )
    round_deadline: float = Field(
        default=300.0,
        gt=0,
        description="Seconds for one exchange with clients; late answers are dropped.",
    )
    join_deadline: float = Field(
        default=90.0, gt=0, description="Seconds to wait for the quorum to join."
    )
