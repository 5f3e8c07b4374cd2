"""Labels of all tasks side by side, so that one batch can hold rows of several tasks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regionfed.data.types import Row
from regionfed.errors import ModelError
from regionfed.models.padding import IGNORED
from regionfed.tasks.spec import TaskKind, TaskSpec


def task_of(row: Row, tasks: dict[str, TaskSpec]) -> TaskSpec:
    """The row's task; raises `ModelError` naming it when the model was not built for it."""
    task = tasks.get(row.task)
    if task is None:
        raise ModelError(
            f"a row belongs to task {row.task!r}, but this model was built for "
            f"{', '.join(sorted(tasks)) or 'no task'}; add the task to the configuration"
        )
    return task


class LabelSpace:
    """The classes of several tasks of one kind, concatenated in the order of the tasks."""

    def __init__(self, tasks: Sequence[TaskSpec]) -> None:
        """Raises `ModelError` for a task without labels."""
        self.tasks = tuple(tasks)
        self.names: list[str] = []
        self._place: dict[tuple[str, str], int] = {}
        self._span: dict[str, tuple[int, int]] = {}
        for task in tasks:
            if not task.labels:
                raise ModelError(
                    f"task {task.name!r} ({task.kind}) has no labels, so a head has no size; "
                    "list its labels in the configuration"
                )
            start = len(self.names)
            for label in task.labels:
                self._place[task.name, label] = len(self.names)
                self.names.append(label)
            self._span[task.name] = (start, len(self.names))

    @property
    def size(self) -> int:
        """Number of classes over all tasks."""
        return len(self.names)

    def index(self, task: str, label: str) -> int:
        """Place of a label, or `IGNORED` for an empty one (a row that is only to be answered).

        Raises `ModelError` naming label and task when it is unknown.
        """
        if not label:
            return IGNORED
        place = self._place.get((task, label))
        if place is None:
            known = [name for owner, name in self._place if owner == task]
            raise ModelError(
                f"target {label!r} is not a label of task {task!r}; its labels are "
                f"{', '.join(known[:12])}{' ...' if len(known) > 12 else ''}. Correct the row, or "
                "add the label to the task"
            )
        return place

    def allowed(self, rows: Sequence[Row]) -> Tensor:
        """(rows, classes) bool: True on the classes of the row's own task."""
        spans = [self._span.get(row.task, (0, 0)) for row in rows]
        bounds = torch.tensor(spans, dtype=torch.int64).view(-1, 2)
        places = torch.arange(self.size)
        return (places >= bounds[:, :1]) & (places < bounds[:, 1:])


def check_target(row: Row, space: LabelSpace) -> None:
    """Raises `ModelError` when a class or a tag that is to be written out is not a label."""
    kind = next((task.kind for task in space.tasks if task.name == row.task), None)
    if kind is TaskKind.TAGGING:
        for tag in row.target.split():
            space.index(row.task, tag)
    elif kind is not None:
        space.index(row.task, row.target)


def labelled(tasks: Sequence[TaskSpec]) -> LabelSpace:
    """The labels of all tasks that have a fixed set of answers."""
    return LabelSpace([task for task in tasks if task.kind is not TaskKind.TEXT])


def split_kinds(
    tasks: Sequence[TaskSpec], *, allowed: Sequence[TaskKind], model: str, fix: str
) -> None:
    """Raises `ModelError` for the first task whose kind the model cannot answer."""
    for task in tasks:
        if task.kind not in allowed:
            raise ModelError(
                f"task {task.name!r} is of kind {task.kind.value!r}, which {model} cannot answer "
                f"(it answers {', '.join(kind.value for kind in allowed)}); {fix}"
            )


class Heads(nn.Module):
    """One linear layer for each task; their outputs stand side by side as in `LabelSpace`."""

    def __init__(self, width: int, tasks: Sequence[TaskSpec]) -> None:
        super().__init__()
        self.by_task = nn.ModuleList(nn.Linear(width, len(task.labels)) for task in tasks)

    def forward(self, features: Tensor) -> Tensor:
        """(..., width) features to (..., classes over all tasks) scores."""
        return torch.cat([head(features) for head in self.by_task], dim=-1)
