"""A client's scores as a short vector of bounded length, so that they can be noised and summed.

Each client counts once, however many rows it has: counts are divided by its number of rows. A
sum of such vectors is still a set of additive counts, so the tasks' own scoring applies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from regionfed.tasks.spec import TaskKind, TaskSpec

_TOKENS = ("tp", "fp", "fn")


def metric_names(tasks: Sequence[TaskSpec]) -> tuple[str, ...]:
    """Names of the values of one level: what the primary measure of each task is made of."""
    names: list[str] = []
    for task in tasks:
        names += [f"{task.name}/rows", f"{task.name}/correct"]
        if task.kind is TaskKind.TAGGING:
            names += [f"{task.name}/class/all/{cell}" for cell in _TOKENS]
    return tuple(names)


def metric_bound(levels: int) -> float:
    """The largest L2 norm of a client's vector over so many levels.

    Shares of rows have norm at most 1, and so have the right ones and the token cells among them.
    """
    return math.sqrt(3.0 * levels)


def metric_vector(
    tasks: Sequence[TaskSpec], levels: Sequence[Mapping[str, float]]
) -> npt.NDArray[np.float64]:
    """One client's vector from its counts by level, shape (names * levels,)."""
    values: list[float] = []
    for counts in levels:
        total = sum(counts.get(f"{task.name}/rows", 0.0) for task in tasks)
        for task in tasks:
            rows = counts.get(f"{task.name}/rows", 0.0)
            share = rows / total if total else 0.0
            right = counts.get(f"{task.name}/correct", 0.0)
            values += [share, right / total if total else 0.0]
            if task.kind is TaskKind.TAGGING:
                cells = [_over_classes(counts, task.name, cell) for cell in _TOKENS]
                seen = sum(cells)
                values += [share * cell / seen if seen else 0.0 for cell in cells]
    return np.array(values, dtype=np.float64)


def metric_counts(
    tasks: Sequence[TaskSpec], levels: Sequence[str], summed: npt.NDArray[np.floating]
) -> dict[str, dict[str, float]]:
    """Counts by level from a noised sum; what noise made negative or too large is cut off."""
    names = metric_names(tasks)
    found: dict[str, dict[str, float]] = {}
    for level, values in zip(levels, np.split(np.asarray(summed), len(levels)), strict=True):
        counts = dict(zip(names, (max(0.0, float(value)) for value in values), strict=True))
        for task in tasks:
            right = f"{task.name}/correct"
            counts[right] = min(counts[right], counts[f"{task.name}/rows"])
        found[level] = counts
    return found


def _over_classes(counts: Mapping[str, float], task: str, cell: str) -> float:
    start, end = f"{task}/class/", f"/{cell}"
    return sum(v for key, v in counts.items() if key.startswith(start) and key.endswith(end))
