"""Scores and losses of the models that a system serves, on the same held-out rows for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from regionfed.bench.federation import Federation
from regionfed.bench.marks import unmarked_answer
from regionfed.bench.population import HeldOut, Member
from regionfed.bench.rows import picked
from regionfed.data.types import Row
from regionfed.method.vectors import Vector
from regionfed.run.scores import LevelScores, RegionScores, TaskScore
from regionfed.tasks import metrics
from regionfed.training.evaluate import losses_at, predictions

Split = Literal["validation", "test"]


@dataclass(frozen=True)
class Served:
    """The models a system hands out: one per region, or one per client where `personal` is set."""

    regional: Callable[[str], Vector]
    personal: Callable[[Member], Vector] | None = None


def score(federation: Federation, served: Served, *, split: Split = "test") -> LevelScores:
    """Scores of what is served, by region and client, over the rows of `split`."""
    regions: dict[str, RegionScores] = {}
    for region in federation.population.regions:
        held = federation.population.held_out[region, split]
        answers = _answers(federation, served, region=region, held=held)
        found = _region_scores(federation, held, answers)
        if found is not None:
            regions[region] = found
    return LevelScores.from_regions(regions)


def region_losses(
    federation: Federation, region: str, *, base: Vector, direction: Vector, rhos: Sequence[float]
) -> list[float]:
    """Mean validation loss of a region at base + rho*direction, as its coordinator asks for it.

    Each client gives its first `method.rho.validation_rows` rows. Infinite without any.
    """
    population = federation.population
    held = population.held_out[region, "validation"]
    limit = federation.config.method.rho.validation_rows
    chosen: list[int] = []
    at = 0
    for size in held.sizes.values():
        chosen += range(at, at + min(size, limit))
        at += size
    if not chosen:
        return [float("inf")] * len(rhos)
    sums, rows = losses_at(
        population.model,
        population.flat,
        picked(held.asked, chosen),
        federation.training,
        base=base,
        direction=direction,
        rhos=rhos,
    )
    return [float(value) / rows for value in sums]


def _answers(federation: Federation, served: Served, *, region: str, held: HeldOut) -> list[str]:
    population, training = federation.population, federation.training
    flat = population.flat
    if served.personal is None:
        flat.write(served.regional(region))
        return predictions(population.model, flat, held.asked, training)
    answers: list[str] = []
    at = 0
    for member in population.members[region]:
        size = held.sizes[member.client]
        if size:
            part = picked(held.asked, range(at, at + size))
            flat.write(served.personal(member))
            answers += predictions(population.model, flat, part, training)
        at += size
    return answers


def _region_scores(
    federation: Federation, held: HeldOut, answers: Sequence[str]
) -> RegionScores | None:
    population = federation.population
    if population.marked:
        kinds = {task.name: task.kind for task in population.tasks}
        answers = [
            unmarked_answer(answer, row, kind=kinds[row.task])
            for answer, row in zip(answers, held.rows, strict=True)
        ]
    by_client: dict[str, Mapping[str, float]] = {}
    at = 0
    for client, size in held.sizes.items():
        by_client[client] = _counts(federation, answers[at : at + size], held.rows[at : at + size])
        at += size
    measures = metrics.score(population.tasks, metrics.add(by_client.values()))
    if not measures:
        return None
    clients = {
        client: metrics.overall(own)
        for client, counts in by_client.items()
        if (own := metrics.score(population.tasks, counts))
    }
    tasks = {
        name: TaskScore(
            score=found["primary"],
            metrics={key: v for key, v in found.items() if key not in ("primary", "rows")},
            rows=int(found["rows"]),
        )
        for name, found in measures.items()
    }
    return RegionScores.from_tasks(tasks, clients=clients)


def _counts(
    federation: Federation, answers: Sequence[str], rows: Sequence[Row]
) -> dict[str, float]:
    parts = []
    for task in federation.population.tasks:
        places = [place for place, row in enumerate(rows) if row.task == task.name]
        if places:
            parts.append(
                metrics.count(task, [answers[p] for p in places], [rows[p] for p in places])
            )
    return metrics.add(parts)
