"""`[method]`: conflict, strength, strategy and the search for rho (algorithm section 3)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from regionfed.config.base import Section
from regionfed.method.rivals import RIVALS, DittoConfig, FedBabuConfig, FedProxConfig, RivalName

StrategyName = Literal[
    "none", "grad", "interp", "meta", "residual", "dynamic", "dynamic-paper", RivalName
]


class AlphaConfig(Section):
    """alpha_r = minimum + (1 - minimum)*sigmoid((d - mu)/(temperature*scale))."""

    minimum: float = Field(default=0.5, ge=0, lt=1, description="alpha_min.")
    temperature: float = Field(default=1.0, gt=0, description="tau: larger is flatter.")
    scale: Literal["paper", "scale-free"] = Field(
        default="scale-free", description="`paper` divides by 1, `scale-free` by mu."
    )


class RhoConfig(Section):
    """Search for the strength rho of a direction on the region's validation loss."""

    low: float = Field(default=0.0, ge=0, description="Lower end of the interval.")
    high: float = Field(default=1.0, gt=0, description="Upper end of the interval.")
    tolerance: float = Field(default=0.05, gt=0, description="Bracket at which it stops.")
    points: int = Field(
        default=39,
        ge=1,
        description="Values evaluated per client exchange; 39 finish in one exchange.",
    )
    validation_rows: int = Field(
        default=64, ge=1, description="Rows per client used for the losses."
    )

    @model_validator(mode="after")
    def _ordered(self) -> RhoConfig:
        if self.high <= self.low:
            raise ValueError(f"high ({self.high}) must be above low ({self.low})")
        return self


class ResidualConfig(Section):
    """theta_r <- (1 - decay)*theta_r - learning_rate*(g_r - g) (algorithm section 3, item 9)."""

    learning_rate: float = Field(default=0.35, gt=0, description="eta_res in the first round.")
    final_learning_rate: float | None = Field(
        default=None,
        gt=0,
        description="eta_res in the last round, reached in equal steps; absent: it stays as it is.",
    )
    decay: float = Field(
        default=0.0, ge=0, lt=1, description="Share of theta_r that is forgotten per round."
    )

    def at(self, round_: int, rounds: int) -> float:
        """eta_res in round `round_` of `rounds`, both counted from 1.

        Large early, when a region is far from its part; small late, when what is left of g_r - g
        is mostly the chance of who was selected.
        """
        last = self.learning_rate if self.final_learning_rate is None else self.final_learning_rate
        share = (min(round_, rounds) - 1) / (rounds - 1) if rounds > 1 else 0.0
        return self.learning_rate + share * (last - self.learning_rate)


class MetaConfig(Section):
    """The look-ahead gradient."""

    steps: int = Field(default=1, ge=1, description="K gradient steps; 1 is the paper's.")
    learning_rate: float = Field(default=0.1, gt=0, description="Step size between the K steps.")


class DynamicConfig(Section):
    """The router's thresholds."""

    conflict: float | None = Field(default=None, gt=0, description="tau_d; default: mu.")
    divergence: float = Field(default=0.05, ge=0, description="tau_h, in nats.")
    size_ratio: float = Field(default=1.5, gt=0, description="n_r above this multiple of the mean.")
    cooldown: int = Field(
        default=3, ge=1, description="Rounds for which a failed strategy is left out."
    )


class MethodConfig(Section):
    """The method on the coordinator."""

    strategy: StrategyName = Field(
        default="residual",
        description="How a region's part is made; `none` is FedAvg, and the `dynamic` ones choose "
        "per region and round. `fedprox`, `scaffold`, `ditto` and `fedbabu` run those systems.",
    )
    personalise_every: int = Field(
        default=0,
        ge=0,
        description="Compute theta_r every k-th round; 0: after the last round only. "
        "Residual keeps theta_r in every round.",
    )
    alpha: AlphaConfig = AlphaConfig()
    rho: RhoConfig = RhoConfig()
    residual: ResidualConfig = ResidualConfig()
    meta: MetaConfig = MetaConfig()
    dynamic: DynamicConfig = DynamicConfig()
    fedprox: FedProxConfig = FedProxConfig()
    ditto: DittoConfig = DittoConfig()
    fedbabu: FedBabuConfig = FedBabuConfig()

    @property
    def regional(self) -> str:
        """How a region's part is made, `none` under a rival."""
        return "none" if self.strategy in RIVALS else self.strategy
