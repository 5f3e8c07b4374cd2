"""What a diagnosis found, as a record that outlives it: `diagnosis.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regionfed.diagnosis.settings import DiagnosisSettings
from regionfed.errors import StateError
from regionfed.method.diagnose import Diagnosis, Finding, Thresholds
from regionfed.run.files import write_atomically
from regionfed.run.records import ConflictMatrix

FILE = "diagnosis.json"

_STILL_LEARNING = 0.1


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RegionFinding(_Record):
    """One region: the verdict, its numbers, and where it would be routed."""

    region: str
    finding: Finding
    conflict: float = Field(description="d_r: distance of its update from the mean of regions.")
    floor: float = Field(description="The d_r that chance alone makes.")
    dispersion_ratio: float = Field(description="Between- over within-region dispersion.")
    p_value: float = Field(description="Probability of that ratio among alike regions.")
    relative_gap: float | None = Field(
        description="Distance from the majority over the update's length, chance subtracted; "
        "null: chance hides that length."
    )
    detectable_gap: float | None = Field(
        description="Gap from which these data would have shown one; null: none would have."
    )
    divergence: float = Field(description="h_r in nats: its labels against everybody's.")
    clients: float = Field(description="Clients behind its groups.")
    groups: int = Field(description="Disjoint groups of clients.")
    examples: int
    strategy: str = Field(description="Where the router would send it.")
    reason: str = Field(description="Why there.")
    explanation: str = Field(description="Verdict and numbers in words.")


class DiagnosisReport(_Record):
    """All regions, and how they were measured."""

    name: str
    settings: DiagnosisSettings
    regions: tuple[RegionFinding, ...]
    matrix: ConflictMatrix
    mu: float = Field(description="Median d_r.")
    level: float = Field(description="Probability of any false alarm among alike regions.")
    negligible: float = Field(description="Relative gap below which a difference is none.")
    severe: float = Field(description="Relative gap from which one model cannot serve.")
    losses: tuple[float, ...] = Field(
        description="Mean training loss of each round, warm-up first."
    )
    parameters: int = Field(description="Length d of the vector.")
    sketched: bool = Field(description="Whether distances come from sketches of the updates.")
    left_out: dict[str, str] = Field(description="Regions that could not be judged, and why.")
    bytes_moved: int = Field(description="Bytes of arrays over both hops.")
    seconds: float

    @property
    def conflicting(self) -> tuple[str, ...]:
        """Regions that are not aligned."""
        return tuple(r.region for r in self.regions if r.finding is not Finding.ALIGNED)

    @property
    def unseen(self) -> tuple[str, ...]:
        """Aligned regions in which even a severe conflict would have gone unseen."""
        return tuple(
            r.region
            for r in self.regions
            if r.finding is Finding.ALIGNED
            and (r.detectable_gap is None or r.detectable_gap > self.severe)
        )

    @property
    def still_learning(self) -> float:
        """Share by which the training loss fell in the last round before measuring; 0: unknown."""
        at = self.settings.warmup
        if at < 1 or not self.losses[at - 1] > 0:
            return 0.0
        return max(0.0, 1 - self.losses[at] / self.losses[at - 1])

    def blindness(self) -> str:
        """A warning where an aligned verdict says little, or nothing."""
        warnings = []
        if self.unseen:
            warnings.append(
                f"{', '.join(self.unseen)}: even a severe conflict could have gone unseen with so "
                "few clients. Give more clients per region, more --groups, or more --rounds "
                "before trusting 'aligned'."
            )
        if not self.conflicting and self.still_learning > _STILL_LEARNING:
            warnings.append(
                f"The training loss still fell by {100 * self.still_learning:.0f}% in the last "
                "round before measuring: what all regions have in common then hides what they "
                "disagree on. Repeat with more --warmup to be sure."
            )
        return " ".join(warnings)

    def summary(self) -> str:
        """What to do, in one sentence or two."""
        if not self.conflicting and self.unseen:
            return (
                "No conflict was shown, but these data could have hidden even a severe one in "
                f"{len(self.unseen)} of {len(self.regions)} regions: this decides nothing there."
            )
        if not self.conflicting:
            return (
                "No region stands out from the others by more than its own clients' scatter and "
                "by enough to matter: a global model is enough (method.strategy = 'none')."
            )
        few = ", ".join(self.conflicting[:6]) + (" ..." if len(self.conflicting) > 6 else "")
        return (
            f"{len(self.conflicting)} of {len(self.regions)} regions pull elsewhere ({few}): one "
            "model cannot be right for all, a regional part is worth its cost (method.strategy = "
            "'dynamic' routes each region as shown)."
        )

    def write(self, folder: Path) -> Path:
        """Write `diagnosis.json` into the folder, atomically."""
        path = folder / FILE
        write_atomically(path, self.model_dump_json(indent=2).encode() + b"\n")
        return path

    @classmethod
    def read(cls, folder: Path) -> DiagnosisReport:
        """Read it back. Raises StateError when it is missing or damaged."""
        path = folder / FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise StateError(f"there is no {path}: the diagnosis has not ended") from None
        except ValidationError as error:
            raise StateError(f"{path} is damaged: {error.errors()[0]['msg']}") from None


def region_findings(
    found: Diagnosis,
    *,
    clients: Mapping[str, tuple[float, int]],
    examples: Mapping[str, int],
) -> tuple[RegionFinding, ...]:
    """The records of a diagnosis; `clients` holds clients and groups by region."""
    return tuple(
        RegionFinding(
            region=each.name,
            finding=each.finding,
            conflict=each.d,
            floor=each.floor,
            dispersion_ratio=each.dispersion_ratio,
            p_value=each.p_value,
            relative_gap=_finite(each.relative_gap),
            detectable_gap=_finite(each.detectable_gap),
            divergence=each.divergence,
            clients=clients[each.name][0],
            groups=clients[each.name][1],
            examples=examples[each.name],
            strategy=each.strategy,
            reason=each.reason,
            explanation=each.explain(),
        )
        for each in found.regions
    )


def thresholds_of(limits: Thresholds) -> dict[str, float]:
    """The thresholds as fields of a report."""
    return {
        "level": limits.level,
        "negligible": limits.negligible,
        "severe": limits.severe,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
