"""What was done to private data, as frozen records; how it is accounted is `accountant.py`.

Every use of private data that leaves a client is one of these kinds (privacy sections 2 and 3).
A kind that is not in this file is refused, never skipped. The dictionary form (`to_dict`,
`from_dict`) is what the ledger stores and hashes: names and meanings in it do not change.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from regionfed.errors import PrivacyError


class Unit(StrEnum):
    """Whose data one epsilon protects; different units are never added."""

    CLIENT = "client"
    EXAMPLE = "example"
    REGION = "region"


class Sampling(StrEnum):
    """How the cohort was chosen. Only secret Poisson sampling can amplify, and only outside."""

    FIXED = "fixed"
    POISSON = "poisson"


class Noise(StrEnum):
    """Which noise protects a release."""

    GAUSSIAN = "gaussian"
    CORRELATED = "correlated"
    SKELLAM = "skellam"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One use of private data. `attempt` > 0 is a retry of the round with fresh noise."""

    kind: ClassVar[str]
    unit: ClassVar[Unit]
    # Uses per client: each round it takes part in, or every charge whoever took part.
    per_participation: ClassVar[bool] = True

    round: int
    attempt: int = 0

    def __post_init__(self) -> None:
        if self.round < 0 or self.attempt < 0:
            raise PrivacyError(
                f"{self.kind}: round {self.round} and attempt {self.attempt} must be >= 0"
            )


@dataclass(frozen=True, kw_only=True)
class NoisedRelease(Event):
    """A release of clipped client values with noise.

    `noise_multiplier` is noise standard deviation over the exact L2 sensitivity to one client,
    rounding included (`mechanisms.charged_multiplier`), so 1/multiplier^2 is the charge.
    `sample_rate` is used only when `sampling` is Poisson.
    """

    unit: ClassVar[Unit] = Unit.CLIENT

    noise_multiplier: float
    sampling: Sampling = Sampling.FIXED
    sample_rate: float = 1.0
    noise: Noise = Noise.GAUSSIAN

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.noise_multiplier > 0.0 and math.isfinite(self.noise_multiplier)):
            raise PrivacyError(
                f"{self.kind}: noise multiplier {self.noise_multiplier} must be positive and "
                "finite; data that left without noise is a RawQuery"
            )
        if not 0.0 < self.sample_rate <= 1.0:
            raise PrivacyError(f"{self.kind}: sample rate {self.sample_rate} must be in (0, 1]")


@dataclass(frozen=True, kw_only=True)
class TrainingUpdate(NoisedRelease):
    """The sum of clipped client updates.

    `with_look_ahead`: [update; look-ahead] jointly clipped. `bands` of correlated noise: clients
    must return that many rounds apart, which the ledger checks.
    """

    kind: ClassVar[str] = "training-update"

    with_look_ahead: bool = False
    bands: int = 1


@dataclass(frozen=True, kw_only=True)
class LookAheadUpdate(NoisedRelease):
    """A second clipped look at the same clients' data: Interp's tuning or Meta's look-ahead."""

    kind: ClassVar[str] = "look-ahead-update"


@dataclass(frozen=True, kw_only=True)
class ConflictSketch(NoisedRelease):
    """The sum of sketched and re-clipped client updates, `width` numbers."""

    kind: ClassVar[str] = "conflict-sketch"

    width: int


@dataclass(frozen=True, kw_only=True)
class LossGrid(NoisedRelease):
    """Clipped losses of the clients at `points` values of rho."""

    kind: ClassVar[str] = "loss-grid"

    points: int


@dataclass(frozen=True, kw_only=True)
class ClipBit(NoisedRelease):
    """The sum of the bits 'my update was within C'; sensitivity 1/2 is in the multiplier."""

    kind: ClassVar[str] = "clip-bit"


@dataclass(frozen=True, kw_only=True)
class EvaluationMetrics(NoisedRelease):
    """Clipped sums of evaluation metrics over the clients, `values` numbers."""

    kind: ClassVar[str] = "evaluation-metrics"

    values: int


@dataclass(frozen=True, kw_only=True)
class IntentHistogram(NoisedRelease):
    """The regional intent histogram for h_r; charged to every client each time."""

    kind: ClassVar[str] = "intent-histogram"
    per_participation: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class DatasetSize(NoisedRelease):
    """The region's total number of examples n_r, clipped per client; charged each time."""

    kind: ClassVar[str] = "dataset-size"
    per_participation: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class RegionalMeanRelease(NoisedRelease):
    """Paper mode: the clipped regional MEAN with noise of `noise_multiplier`*C.

    The multiplier is relative to C, the influence of a whole region. One client moves a clipped
    mean by up to 2C, so seen per client the multiplier is half of it.
    """

    kind: ClassVar[str] = "regional-mean"
    unit: ClassVar[Unit] = Unit.REGION


@dataclass(frozen=True, kw_only=True)
class RawQuery(Event):
    """Private data that left without noise; epsilon is infinite from here on."""

    kind: ClassVar[str] = "raw-query"
    unit: ClassVar[Unit] = Unit.CLIENT
    per_participation: ClassVar[bool] = False

    what: str


@dataclass(frozen=True, kw_only=True)
class ExampleLevelTraining(Event):
    """One client's DP-SGD in one round: `steps` Poisson batches; the unit is one example."""

    kind: ClassVar[str] = "example-level-training"
    unit: ClassVar[Unit] = Unit.EXAMPLE

    client: str
    noise_multiplier: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_multiplier <= 0.0 or not 0.0 < self.sample_rate <= 1.0 or self.steps < 1:
            raise PrivacyError(
                f"{self.kind}: noise multiplier {self.noise_multiplier}, sample rate "
                f"{self.sample_rate} and {self.steps} steps must be positive, the rate at most 1"
            )


EVENT_KINDS: Mapping[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        TrainingUpdate,
        LookAheadUpdate,
        ConflictSketch,
        LossGrid,
        ClipBit,
        EvaluationMetrics,
        IntentHistogram,
        DatasetSize,
        RegionalMeanRelease,
        RawQuery,
        ExampleLevelTraining,
    )
}


def require_known(event: Event) -> None:
    """Raise PrivacyError unless `event` is exactly one of the kinds above."""
    if EVENT_KINDS.get(getattr(event, "kind", "")) is not type(event):
        raise PrivacyError(
            f"{type(event).__name__} is not a privacy event that can be accounted; "
            f"known kinds: {', '.join(sorted(EVENT_KINDS))}"
        )


def to_dict(event: Event) -> dict[str, Any]:
    """`event` as JSON-ready values, its kind under 'kind'."""
    require_known(event)
    return {"kind": event.kind, **dataclasses.asdict(event)}


def _checked(value: Any, declared: str, where: str) -> Any:
    if declared == "float" and type(value) in (int, float):
        return float(value)
    if declared in ("int", "str", "bool") and type(value).__name__ == declared:
        return value
    if declared in ("Sampling", "Noise") and isinstance(value, str):
        return Sampling(value) if declared == "Sampling" else Noise(value)
    raise PrivacyError(f"{where} = {value!r} is not a {declared}")


def from_dict(record: Mapping[str, Any]) -> Event:
    """The event that `to_dict` wrote.

    Raises PrivacyError for an unknown kind, a missing or unknown field, or a wrong type.
    """
    kind = record.get("kind")
    cls = EVENT_KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise PrivacyError(
            f"unknown privacy event kind {kind!r}; known kinds: {', '.join(sorted(EVENT_KINDS))}. "
            "It is refused rather than skipped: use the version that wrote it"
        )
    declared = {item.name: str(item.type) for item in dataclasses.fields(cls)}
    given = {key: value for key, value in record.items() if key != "kind"}
    unknown, missing = set(given) - set(declared), set(declared) - set(given)
    if unknown or missing:
        raise PrivacyError(
            f"privacy event {kind!r} has unknown fields {sorted(unknown)} "
            f"and lacks {sorted(missing)}"
        )
    try:
        return cls(
            **{key: _checked(value, declared[key], f"{kind}.{key}") for key, value in given.items()}
        )
    except ValueError as error:
        raise PrivacyError(f"privacy event {kind!r}: {error}") from error
