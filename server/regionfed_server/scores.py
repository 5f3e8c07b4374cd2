"""From the regions' additive counts to scores by level, region and client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regionfed.messages import RegionScores as RegionAnswer
from regionfed.run.records import CurvePoint, PersonaliseRecord
from regionfed.run.scores import LEVELS, Level, LevelScores, RegionScores, TaskScore
from regionfed.tasks.metrics import overall, score
from regionfed.tasks.spec import TaskSpec


def level_scores(
    tasks: Sequence[TaskSpec], answers: Mapping[str, RegionAnswer]
) -> dict[Level, LevelScores]:
    """Scores of every level that all answering regions reported.

    A level that only some regions report (a strategy that differs between regions) is filled with
    what those regions serve instead: the global model.
    """
    scored = {name: answer for name, answer in answers.items() if answer.counts}
    found: dict[Level, LevelScores] = {}
    for level in LEVELS:
        regions: dict[str, RegionScores] = {}
        for name, answer in scored.items():
            served = _served(level, answer)
            if served is None:
                break
            tasks_scored = _task_scores(
                tasks, answer.counts[served], primary=bool(answer.report.get("noised"))
            )
            if not tasks_scored:
                continue
            clients = {
                client: overall(measures)
                for client, counts in sorted(answer.report.get("by_client", {}).items())
                if (measures := score(tasks, counts.get(served, {})))
            }
            regions[name] = RegionScores.from_tasks(tasks_scored, clients=clients)
        else:
            if regions and any(level in answer.counts for answer in scored.values()):
                found[level] = LevelScores.from_regions(regions)
    return found


def personalise_record(answer: RegionAnswer) -> PersonaliseRecord | None:
    """What a region decided, or None where it served the global model without deciding."""
    personal = answer.personal
    if "verdict" not in personal and personal.get("strategy", "none") == "none":
        return None
    verdict = personal.get("verdict")
    return PersonaliseRecord(
        round=answer.round,
        region=answer.region,
        strategy=str(personal.get("strategy", "none")),
        why=". ".join(
            str(part) for part in (personal.get("why"), personal.get("explanation")) if part
        ),
        served=float(personal.get("served", 1.0)) > 0,
        alpha=personal.get("alpha"),
        rho=personal.get("rho"),
        verdict=None if verdict is None else str(verdict),
        curve=tuple(CurvePoint(rho=rho, loss=loss) for rho, loss in personal.get("curve", [])),
    )


def _served(level: Level, answer: RegionAnswer) -> Level | None:
    if level in answer.counts:
        return level
    return "global" if level == "regional" and "global" in answer.counts else None


def _task_scores(
    tasks: Sequence[TaskSpec], counts: Mapping[str, float], *, primary: bool
) -> dict[str, TaskScore]:
    """Scores by task; `primary`: only the primary measure was asked for (noised scores)."""
    if primary:
        return {
            name: TaskScore(score=measures["primary"], rows=round(measures["rows"]))
            for name, measures in score(tasks, counts).items()
        }
    return {
        name: TaskScore(
            score=measures["primary"],
            metrics={k: v for k, v in measures.items() if k not in ("primary", "rows")},
            rows=int(measures["rows"]),
        )
        for name, measures in score(tasks, counts).items()
    }
