"""`[privacy]`: the region's promise, in the units of `privacy.md`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from regionfed.config.base import Section

ModeName = Literal["client", "client-mf", "client-strict", "paper", "off"]


class SecureAggregationConfig(Section):
    """Masked sums (privacy section 5)."""

    enabled: bool = Field(
        default=False, description="Coordinators see sums of masked updates only."
    )
    threshold: float = Field(
        default=2 / 3,
        ge=2 / 3,
        le=1,
        description="Share of the cohort that must survive to unmask.",
    )
    scale_bits: int = Field(default=20, ge=8, le=24, description="Fixed-point scale s = 2^bits.")
    min_cohort: int = Field(default=3, ge=3, description="Smallest cohort that is aggregated.")


class BudgetConfig(Section):
    """The region's budget for the whole run."""

    epsilon: float = Field(
        default=2.0, gt=0, description="No release goes past it; the run stops before."
    )
    delta: float = Field(default=1e-5, gt=0, lt=1, description="Delta of that epsilon.")
    max_participations: int = Field(
        default=5, ge=1, description="Rounds one client may take part in."
    )
    min_separation: int = Field(default=1, ge=1, description="Rounds between two participations.")
    evaluation_share: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share for noised scores after the last round; 0: scores are not asked for.",
    )
    loss_share: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share for the noised losses that choose rho after the last round; 0: rho is 1.",
    )
    sketch_share: float = Field(
        default=0.10,
        ge=0,
        lt=1,
        description="Share for the conflict sketch, where conflict is acted on and the cohort is "
        "large enough; else it goes to training.",
    )
    clip_bit_share: float = Field(
        default=0.01,
        ge=0,
        lt=1,
        description="Share for the bits of adaptive clipping; without it, it goes to training.",
    )
    histogram_share: float = Field(
        default=0.04,
        ge=0,
        lt=1,
        description="Share for the intent histogram, asked once by `dynamic-paper`.",
    )
    size_share: float = Field(
        default=0.02,
        ge=0,
        lt=1,
        description="Share for the dataset size, asked once by `dynamic-paper`.",
    )

    @model_validator(mode="after")
    def _leaves_training_a_share(self) -> BudgetConfig:
        shares = {
            name: getattr(self, name) for name in type(self).model_fields if name.endswith("_share")
        }
        if sum(shares.values()) >= 1:
            told = ", ".join(f"{name} ({value:g})" for name, value in shares.items() if value)
            raise ValueError(f"{told} leave training no share of the budget; lower them")
        return self


class ExampleConfig(Section):
    """DP-SGD on the device (`example_level = true`); the unit is one training row of a client."""

    noise_multiplier: float = Field(
        default=1.0, gt=0, description="Noise of an optimizer step, over `clipping_norm`."
    )
    clipping_norm: float = Field(
        default=1.0, gt=0, description="Largest L2 norm of one row's gradient in a step."
    )
    epsilon: float = Field(
        default=8.0,
        gt=0,
        description="Budget of one row of a client, kept by the client itself; a client that has "
        "spent it trains no more.",
    )
    delta: float = Field(default=1e-5, gt=0, lt=1, description="Delta of that epsilon.")


class PrivacyConfig(Section):
    """Mode, clipping norm, noise and budget."""

    mode: ModeName = Field(
        default="client",
        description="Who is protected and how: `client` modes protect one client's data for the "
        "whole run, `paper` is the published mechanism, `off` promises nothing.",
    )
    clipping_norm: float = Field(
        default=1.0, gt=0, description="C, on the flat update of one client."
    )
    noise_multiplier: float | None = Field(
        default=None, gt=0, description="sigma of the training release; default: from the budget."
    )
    expected_cohort: int | None = Field(
        default=None, ge=1, description="Public divisor of the sum; default: the configured cohort."
    )
    adaptive_clipping: bool = Field(
        default=False,
        description="Move C towards a quantile of the updates' norms, from `clipping_norm` on; "
        "needs 100 clients per region and round, else C stays.",
    )
    clip_quantile: float = Field(
        default=0.5, gt=0, lt=1, description="Share of updates that adaptive clipping leaves whole."
    )
    sketch_width: int = Field(
        default=32, ge=32, le=64, description="Numbers in a conflict sketch, k."
    )
    size_clip: float = Field(
        default=1000.0, gt=0, description="Examples that one client counts at most for n_r."
    )
    example_level: bool = Field(
        default=False,
        description="Clients train by DP-SGD (Opacus), beside any mode but `paper`.",
    )
    bands: int = Field(
        default=10, ge=2, description="`client-mf`: rounds over which the noise is correlated."
    )
    minimum_honest: int | None = Field(
        default=None,
        ge=1,
        description="`client-strict`: honest clients whose noise reaches every sum; default: the "
        "threshold of secure aggregation.",
    )
    loss_clip: float = Field(
        default=1.0, gt=0, description="Bound on one client's loss differences over all rho."
    )
    audit_metrics: Literal["none", "simulated"] = Field(
        default="none",
        description="`simulated`: measure scores without noise, outside the promise; works in "
        "`simulate` only, for research.",
    )
    example: ExampleConfig = ExampleConfig()
    budget: BudgetConfig = BudgetConfig()
    secure_aggregation: SecureAggregationConfig = SecureAggregationConfig()
