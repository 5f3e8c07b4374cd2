"""Scores of one served level: by task, by region, the worst region and the spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Level = Literal["global", "regional", "user", "local"]

LEVELS: tuple[Level, ...] = ("global", "regional", "user", "local")


class Record(BaseModel):
    """Base of everything that a run writes: unknown fields are errors, values are read-only.

    Numbers that are not finite are written as the strings "NaN", "Infinity" and "-Infinity".
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class TaskScore(Record):
    """Score of one task on one group of held-out rows."""

    score: float = Field(description="The task's own measure, between 0 and 1.")
    metrics: dict[str, float] = Field(
        default_factory=dict, description="Every measure of the task by name, such as macro_f1."
    )
    rows: int = Field(
        default=0, ge=0, description="Held-out rows behind the score; 0: not counted."
    )


class RegionScores(Record):
    """Scores of one region."""

    overall: float = Field(description="Unweighted mean of the region's task scores.")
    tasks: dict[str, TaskScore] = Field(description="Score by task.")
    clients: dict[str, float] = Field(
        default_factory=dict, description="Overall score by client, where it was measured."
    )

    @classmethod
    def from_tasks(
        cls, tasks: Mapping[str, TaskScore], *, clients: Mapping[str, float] | None = None
    ) -> RegionScores:
        """The region's scores with its overall score computed.

        Raises ValueError when `tasks` is empty.
        """
        if not tasks:
            raise ValueError("a region needs the score of at least one task")
        overall = _mean([task.score for task in tasks.values()])
        return cls(overall=overall, tasks=dict(tasks), clients=dict(clients or {}))


class WorstRegion(Record):
    """The region with the lowest overall score."""

    name: str = Field(description="Name of the region.")
    score: float = Field(description="Its overall score.")


class LevelScores(Record):
    """Scores of one served level over all regions.

    Levels are `global` (the global model), `regional` (with the region's part), `user` (with the
    user's part) and `local` (each client alone), all on the same held-out rows.
    """

    overall: float = Field(description="Unweighted mean of the regions' overall scores.")
    tasks: dict[str, float] = Field(
        description="Score by task: unweighted mean over the regions that have the task."
    )
    regions: dict[str, RegionScores] = Field(description="Scores by region.")
    worst_region: WorstRegion = Field(description="The region with the lowest overall score.")
    spread: float = Field(description="Highest minus lowest overall score of a region.")

    @classmethod
    def from_regions(cls, regions: Mapping[str, RegionScores]) -> LevelScores:
        """The level's scores from those of its regions (benchmark section 5).

        Raises ValueError when `regions` is empty.
        """
        if not regions:
            raise ValueError("a level needs the scores of at least one region")
        by_task: dict[str, list[float]] = {}
        for region in regions.values():
            for task, score in region.tasks.items():
                by_task.setdefault(task, []).append(score.score)
        overall = {name: region.overall for name, region in regions.items()}
        worst = min(overall, key=lambda name: (overall[name], name))
        return cls(
            overall=_mean(list(overall.values())),
            tasks={task: _mean(scores) for task, scores in by_task.items()},
            regions=dict(regions),
            worst_region=WorstRegion(name=worst, score=overall[worst]),
            spread=max(overall.values()) - min(overall.values()),
        )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
