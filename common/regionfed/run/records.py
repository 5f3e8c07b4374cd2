"""The records of `metrics.jsonl`: one JSON object per line, told apart by `kind`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from regionfed.run.scores import Level, LevelScores, Record


class HopBytes(Record):
    """Payload bytes over one hop."""

    up: int = Field(default=0, ge=0, description="Towards the global server.")
    down: int = Field(default=0, ge=0, description="Towards the clients.")


class Traffic(Record):
    """Payload bytes by hop, summed over all peers of the hop."""

    server_coordinator: HopBytes = Field(
        default=HopBytes(), description="Between the global server and the coordinators."
    )
    coordinator_client: HopBytes = Field(
        default=HopBytes(), description="Between the coordinators and their clients."
    )

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            server_coordinator=_added(self.server_coordinator, other.server_coordinator),
            coordinator_client=_added(self.coordinator_client, other.coordinator_client),
        )

    @property
    def total(self) -> int:
        """Bytes over both hops and both ways."""
        hops = (self.server_coordinator, self.coordinator_client)
        return sum(hop.up + hop.down for hop in hops)


def _added(left: HopBytes, right: HopBytes) -> HopBytes:
    return HopBytes(up=left.up + right.up, down=left.down + right.down)


class SkippedRegion(Record):
    """A region without a part in a round."""

    region: str = Field(description="Name of the region.")
    reason: str = Field(description="Why, in words.")


class LeftOutClient(Record):
    """A client whose answer did not count in a round."""

    region: str = Field(description="The client's region.")
    client: str = Field(description="Name of the client.")
    reason: str = Field(description="Why, in words.")


class ConflictMatrix(Record):
    """Who disagrees with whom: square matrices in the order of `regions` (algorithm section 4)."""

    regions: tuple[str, ...] = Field(description="Names along both axes.")
    distance: tuple[tuple[float, ...], ...] = Field(
        description="L2 distance between the regions' updates."
    )
    cosine: tuple[tuple[float, ...], ...] = Field(
        description="Cosine between the regions' updates, from -1 to 1."
    )

    @model_validator(mode="after")
    def _square(self) -> Self:
        size = len(self.regions)
        for name in ("distance", "cosine"):
            rows = getattr(self, name)
            if len(rows) != size or any(len(row) != size for row in rows):
                raise ValueError(f"{name} must have {size} rows of {size} values, one per region")
        return self


class RegionRound(Record):
    """One region in one round."""

    weight: float | None = Field(
        default=None, description="Share of the region in the global mean."
    )
    clients: int | None = Field(default=None, ge=0, description="Clients whose answers counted.")
    exchanges: int | None = Field(
        default=None, ge=1, description="Round trips with its clients to train, masks included."
    )
    loss: float | None = Field(default=None, description="Mean training loss of its clients.")
    conflict: float | None = Field(
        default=None, description="d_r: L2 distance of the regional from the global update."
    )
    alpha: float | None = Field(default=None, description="alpha_r: strength of the regional part.")


class RoundRecord(Record):
    """One global round; an attempt repeated after a restart replaces the earlier one."""

    kind: Literal["round"] = "round"
    round: int = Field(ge=1, description="Number of the round, from 1.")
    seconds: float = Field(ge=0, description="Wall time of the round.")
    phases: dict[str, float] = Field(
        default_factory=dict, description="Seconds by phase (train, aggregate, evaluate, ...)."
    )
    traffic: Traffic = Field(default=Traffic(), description="Payload bytes by hop.")
    answered: tuple[str, ...] = Field(description="Regions that took part.")
    skipped: tuple[SkippedRegion, ...] = Field(default=(), description="Regions that did not.")
    left_out: tuple[LeftOutClient, ...] = Field(
        default=(), description="Clients that did not count."
    )
    regions: dict[str, RegionRound] = Field(
        default_factory=dict, description="Figures of the regions that took part."
    )
    mu: float | None = Field(
        default=None, description="Calibration of alpha_r: median d_r of round 1."
    )
    conflict_matrix: ConflictMatrix | None = Field(
        default=None, description="Pairwise disagreement."
    )


class EvaluateRecord(Record):
    """Scores of one served level after a round; the round's last one counts."""

    kind: Literal["evaluate"] = "evaluate"
    round: int = Field(ge=0, description="Rounds done; 0 is the untrained model.")
    level: Level = Field(description="Which model was served.")
    scores: LevelScores = Field(description="Its scores.")


class CurvePoint(Record):
    """One evaluation of the rho search."""

    rho: float = Field(ge=0, description="Strength of the direction.")
    loss: float = Field(description="The region's validation loss there.")


class PersonaliseRecord(Record):
    """How one region's part theta_r came about (algorithm section 3, items 6, 7 and 9)."""

    kind: Literal["personalise"] = "personalise"
    round: int = Field(ge=1, description="Rounds done.")
    region: str = Field(description="Name of the region.")
    strategy: str = Field(description="Strategy that gave the direction.")
    why: str = Field(description="Why this strategy, in words.")
    served: bool = Field(description="Whether the part is served; else the global model is.")
    alpha: float | None = Field(default=None, description="alpha_r with which the part is served.")
    rho: float | None = Field(default=None, description="Strength found; null without a search.")
    verdict: str | None = Field(
        default=None,
        description="interior, lower, upper, rejected or fixed; null without a search.",
    )
    curve: tuple[CurvePoint, ...] = Field(default=(), description="What the search evaluated.")


class PrivacyRecord(Record):
    """One charge to a region's ledger."""

    kind: Literal["privacy"] = "privacy"
    round: int = Field(ge=0, description="Round of the release.")
    region: str = Field(description="Name of the region.")
    release: str = Field(description="What was released, such as training or sketch.")
    noise_multiplier: float = Field(ge=0, description="Noise std over sensitivity.")
    clipping_norm: float = Field(gt=0, description="C of the release.")
    epsilon: float = Field(
        ge=0, description="Spent so far as the coordinator sees it, no amplification."
    )
    epsilon_external: float | None = Field(
        default=None, ge=0, description="Spent so far against everybody outside the region."
    )
    delta: float = Field(gt=0, lt=1, description="Delta at which epsilon is stated.")
    entry: int | None = Field(
        default=None, ge=1, description="Number of the charge in the region's ledger."
    )
    hash: str = Field(default="", description="Head of the ledger's hash chain after it.")


MetricRecord = Annotated[
    RoundRecord | EvaluateRecord | PersonaliseRecord | PrivacyRecord, Field(discriminator="kind")
]

METRIC_RECORD: TypeAdapter[MetricRecord] = TypeAdapter(MetricRecord)
