"""`result.json`: what a run came to. `docs/result.md` is generated from these descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from regionfed.errors import StateError
from regionfed.run.files import write_atomically
from regionfed.run.records import LeftOutClient, SkippedRegion, Traffic
from regionfed.run.scores import Level, LevelScores, Record, WorstRegion


class Topology(Record):
    """Who took part."""

    engine: Literal["simulate", "up", "deployed"] = Field(
        description="One process, processes of one machine, or separate hosts."
    )
    regions: dict[str, tuple[str, ...]] = Field(description="Clients by region.")


class ModelFacts(Record):
    """The model that travelled."""

    kind: str = Field(description="`model.kind` of the configuration.")
    name: str = Field(default="", description="Preset, checkpoint or factory, where there is one.")
    parameters: int = Field(ge=0, description="Length d of the flat vector that travels.")
    bytes: int = Field(ge=0, description="Bytes of the vector and its averaged buffers.")


class SkippedRound(SkippedRegion):
    """A region that had no part in a round."""

    round: int = Field(ge=1, description="Number of the round.")


class LeftOut(LeftOutClient):
    """A client whose answer did not count in a round."""

    round: int = Field(ge=1, description="Number of the round.")


class RegionResult(Record):
    """What became of one region."""

    strategy: str = Field(default="none", description="Strategy of the last personalisation.")
    why: str = Field(default="", description="Why this strategy, in words.")
    served: bool = Field(
        default=False, description="Whether the regional part is served; else the global model is."
    )
    alpha: float | None = Field(default=None, description="Last alpha_r.")
    conflict: float | None = Field(default=None, description="Last d_r.")
    rho: float | None = Field(default=None, description="Last rho; null without a search.")
    verdict: str | None = Field(
        default=None,
        description="Verdict of the last rho search: interior, lower, upper, rejected or fixed; "
        "null without a search.",
    )
    rounds: int = Field(default=0, ge=0, description="Rounds in which the region took part.")


class RegionPrivacy(Record):
    """The state of one region's ledger."""

    epsilon: float = Field(ge=0, description="Spent against the coordinator, no amplification.")
    epsilon_external: float | None = Field(
        default=None, description="Against outsiders; null where selection is not secret."
    )
    releases: dict[str, int] = Field(default_factory=dict, description="Charges by release.")


class ExampleLevelResult(Record):
    """DP-SGD on the clients: another unit than the regions' ledgers, never added to them."""

    unit: str = Field(default="one training example of one client", description="What is hidden.")
    statement: str = Field(description="The promise in words.")
    epsilon: float | None = Field(
        default=None,
        description="Largest over the clients' own ledgers; null where these lie on other hosts.",
    )
    delta: float = Field(description="Delta at which epsilon is stated.")
    budget: float = Field(description="Epsilon at which a client trains no more.")
    noise_multiplier: float = Field(description="Noise of a step, over the clipping norm.")
    clipping_norm: float = Field(description="Largest norm of one row's gradient.")
    clients: int = Field(default=0, ge=0, description="Client ledgers that were read.")
    charges: int = Field(default=0, ge=0, description="Trainings charged in them.")


class PrivacyResult(Record):
    """What the run promises."""

    mode: str = Field(description="`privacy.mode` of the configuration.")
    statement: str = Field(description="The promise in words, or that there is none.")
    epsilon: float | None = Field(
        default=None, description="Largest epsilon of a region; null when the mode promises none."
    )
    delta: float | None = Field(default=None, description="Delta at which epsilon is stated.")
    budget: float | None = Field(default=None, description="Epsilon at which a region stops.")
    secure_aggregation: bool = Field(default=False, description="Whether sums were masked.")
    regions: dict[str, RegionPrivacy] = Field(default_factory=dict, description="Ledger by region.")
    example_level: ExampleLevelResult | None = Field(
        default=None, description="Beside the mode: DP-SGD on the clients, where it is on."
    )
    feasibility: str = Field(
        default="", description="Whether training under this noise is useful (R_T), in words."
    )
    paper: str = Field(
        default="", description="What the paper's formula prints for these settings, labelled."
    )
    notes: tuple[str, ...] = Field(
        default=(), description="What was not asked, or measured outside the promise, in words."
    )


class Result(Record):
    """The whole of `result.json`."""

    format: Literal[1] = Field(default=1, description="Version of this schema.")
    run: str = Field(description="Name of the run.")
    status: Literal["ok", "stopped", "failed"] = Field(
        description="Whether the run came to its end; `stopped`: its privacy budget ended it after "
        "the last round that could be paid, with model and report intact."
    )
    reason: str = Field(default="", description="Why it failed or stopped; else empty.")
    seed: int = Field(ge=0, description="Seed of the run.")
    digest: str = Field(description="Digest of the sections on which all tiers agree.")
    started: str = Field(default="", description="Start of the run, ISO 8601 in UTC.")
    versions: dict[str, str] = Field(description="Versions of what ran.")
    machine: dict[str, str | int] = Field(
        default_factory=dict, description="System, processor and cores of the reporting host."
    )
    topology: Topology = Field(description="Regions and clients.")
    model: ModelFacts = Field(description="The model that travelled.")
    rounds_planned: int = Field(ge=0, description="Rounds of the configuration.")
    rounds_done: int = Field(ge=0, description="Rounds that were aggregated.")
    seconds: float = Field(ge=0, description="Wall time of all rounds and of start and end.")
    seconds_by_phase: dict[str, float] = Field(
        default_factory=dict, description="Wall time by phase, summed over the rounds."
    )
    traffic: Traffic = Field(default=Traffic(), description="Payload bytes of all rounds.")
    levels: dict[Level, LevelScores] = Field(
        default_factory=dict, description="Last scores of each level that was evaluated."
    )
    headline: Level | None = Field(
        default=None, description="The level that the regions are served; null without scores."
    )
    overall: float | None = Field(default=None, description="Overall score of that level.")
    tasks: dict[str, float] = Field(default_factory=dict, description="Its scores by task.")
    worst_region: WorstRegion | None = Field(default=None, description="Its worst region.")
    spread: float | None = Field(default=None, description="Its spread over the regions.")
    regions: dict[str, RegionResult] = Field(
        default_factory=dict, description="Personalisation by region."
    )
    skipped: tuple[SkippedRound, ...] = Field(default=(), description="Regions left out.")
    left_out: tuple[LeftOut, ...] = Field(default=(), description="Clients left out.")
    privacy: PrivacyResult = Field(description="What the run promises.")


def write_result(result: Result, path: Path) -> None:
    """Write `result.json` so that a crash leaves the earlier file or the new one."""
    write_atomically(path, result.model_dump_json(indent=2).encode() + b"\n")


def read_result(path: Path) -> Result:
    """Read `result.json`. Raises StateError when it is missing or not of this schema."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StateError(
            f"there is no {path}; the run has not ended, or this is not a run's folder"
        ) from None
    try:
        return Result.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StateError(f"{path}: {where}: {first['msg']}") from None
