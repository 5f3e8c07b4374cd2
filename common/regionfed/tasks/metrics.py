"""Scores as additive counts: clients' counts add up to their region's and to the federation's.

`count` turns answers into flat counts; counts of disjoint sets of rows may be added key by key;
`score` turns any sum of them into fractions between 0 and 1.

Primary measures: accuracy (classification, images), exact match (text), token micro-F1 (tagging).
Tagging is scored token by token on the entity type: `B-` and `I-` are taken off, and outside is a
class like the others, so that with one answer per token micro-F1 is the share of tokens that are
right. A missing tag is a false negative, a tag too many a false positive. `entity_f1` leaves
outside out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from regionfed.data.types import Row
from regionfed.errors import DataError
from regionfed.tasks.registry import OUTSIDE
from regionfed.tasks.spec import TaskKind, TaskSpec

PRIMARY: Mapping[TaskKind, str] = {
    TaskKind.CLASSIFICATION: "accuracy",
    TaskKind.TEXT: "exact_match",
    TaskKind.TAGGING: "token_f1",
    TaskKind.IMAGE: "accuracy",
}
"""Name of the measure by which a task of each kind is judged."""

_NO_LABEL = "?"
"""Stands for an answer that is not one of the labels; it is wrong and has a class of its own."""


def count(task: TaskSpec, predictions: Sequence[str], rows: Sequence[Row]) -> dict[str, float]:
    """Counts of one task, keyed `task/measure` or `task/class/label/tp`, all additive.

    `predictions` are in the form of `Row.target`, one per row; white space at the ends and its
    width do not matter. Raises `DataError` when their number differs from the rows', when a row
    is of another task, or when a target is not one of the task's labels.
    """
    if len(predictions) != len(rows):
        raise DataError(
            f"task '{task.name}': {len(predictions)} answers for {len(rows)} rows; "
            "give one answer per row"
        )
    foreign = {row.task for row in rows} - {task.name}
    if foreign:
        raise DataError(f"task '{task.name}' was asked to score rows of {sorted(foreign)}")
    pairs = [
        (" ".join(given.split()), " ".join(row.target.split()))
        for given, row in zip(predictions, rows, strict=True)
    ]
    counts = Counter({"rows": len(pairs), "correct": sum(given == want for given, want in pairs)})
    if task.kind is TaskKind.TAGGING:
        counts.update(_token_counts(task, pairs))
    elif task.kind is not TaskKind.TEXT:
        counts.update(_class_counts(pairs, labels=task.labels, task=task.name))
    return {f"{task.name}/{key}": float(value) for key, value in counts.items()}


def add(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of counts, key by key."""
    total: dict[str, float] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total


def score(tasks: Sequence[TaskSpec], counts: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Measures by task, in fractions: `primary`, the measures of its kind, and `rows`.

    A task without a scored row is left out.
    """
    result: dict[str, dict[str, float]] = {}
    for task in tasks:
        rows = counts.get(f"{task.name}/rows", 0.0)
        if rows <= 0:
            continue
        exact = counts.get(f"{task.name}/correct", 0.0) / rows
        measures: dict[str, float]
        if task.kind is TaskKind.TEXT:
            measures = {"exact_match": exact}
        else:
            classes = _classes(task.name, counts)
            macro = _mean(_f1(*cell) for label, cell in classes.items() if label != _NO_LABEL)
            if task.kind is TaskKind.TAGGING:
                entities = [cell for label, cell in classes.items() if label != OUTSIDE]
                measures = {
                    "token_f1": _f1(*_total(classes.values())),
                    "entity_f1": _f1(*_total(entities)),
                    "macro_f1": macro,
                    "exact_match": exact,
                }
            else:
                measures = {"accuracy": exact, "macro_f1": macro}
        result[task.name] = {"primary": measures[PRIMARY[task.kind]], **measures, "rows": rows}
    return result


def overall(scores: Mapping[str, Mapping[str, float]]) -> float:
    """Unweighted mean of the tasks' primary measures.

    Raises `DataError` when no task was scored.
    """
    if not scores:
        raise DataError("nothing was scored: there is no held-out row of any task")
    return _mean(task["primary"] for task in scores.values())


def entity_type(tag: str) -> str:
    """A tag without its `B-` or `I-`; outside is always `o`."""
    bare = tag[2:] if tag[:2].upper() in {"B-", "I-"} else tag
    return OUTSIDE if bare in {"O", OUTSIDE} else bare


def _class_counts(
    pairs: Iterable[tuple[str | None, str | None]], *, labels: Iterable[str], task: str
) -> Counter[str]:
    known = set(labels)
    counts: Counter[str] = Counter()
    for given, want in pairs:
        if want is not None and want not in known:
            raise DataError(
                f"task '{task}': '{want}' is the answer of a row but not one of the labels "
                f"{sorted(known)}; correct the row, or list the label in [data.custom.{task}]"
            )
        if given is not None and given not in known:
            given = _NO_LABEL
        if given == want:
            counts[f"class/{want}/tp"] += 1
            continue
        if want is not None:
            counts[f"class/{want}/fn"] += 1
        if given is not None:
            counts[f"class/{given}/fp"] += 1
    return counts


def _token_counts(task: TaskSpec, pairs: Iterable[tuple[str, str]]) -> Counter[str]:
    tokens = [
        (given and entity_type(given), want and entity_type(want))
        for answer, target in pairs
        for given, want in zip_longest(answer.split(), target.split())
    ]
    types = [entity_type(label) for label in task.labels]
    counts = _class_counts(tokens, labels=types, task=task.name)
    counts["tokens"] = sum(want is not None for _, want in tokens)
    return counts


def _classes(task: str, counts: Mapping[str, float]) -> dict[str, tuple[float, float, float]]:
    """(tp, fp, fn) of every class that occurs in a target or an answer."""
    start = f"{task}/class/"
    labels = sorted(
        {key[len(start) :].rpartition("/")[0] for key in counts if key.startswith(start)}
    )
    return {
        label: (
            counts.get(f"{start}{label}/tp", 0.0),
            counts.get(f"{start}{label}/fp", 0.0),
            counts.get(f"{start}{label}/fn", 0.0),
        )
        for label in labels
    }


def _total(cells: Iterable[tuple[float, float, float]]) -> tuple[float, float, float]:
    tp = fp = fn = 0.0
    for cell in cells:
        tp, fp, fn = tp + cell[0], fp + cell[1], fn + cell[2]
    return tp, fp, fn


def _f1(tp: float, fp: float, fn: float) -> float:
    return 2 * tp / (2 * tp + fp + fn) if tp else 0.0


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
