"""Answers from the device's composed model, one by one or line by line, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from regionfed.data.types import Row
from regionfed.errors import ConfigError, DataError, ModelError
from regionfed.tasks.spec import TaskKind, TaskSpec
from regionfed.training.evaluate import predictions
from regionfed_client.served import ServedModel

CHUNK = 256
"""Lines that are answered together: memory does not grow with the file."""


@dataclass(frozen=True)
class Question:
    """One text and the task that it belongs to."""

    task: str
    text: str


def task_named(device: ServedModel, name: str | None) -> TaskSpec:
    """The task of that name, or the only one.

    Raises:
        ConfigError: there is no such task, or several and none is named.
        ModelError: it is about images, which a line of text cannot hold.
    """
    tasks = {task.name: task for task in device.bench.data.tasks}
    if name is None and len(tasks) == 1:
        name = next(iter(tasks))
    if name is None:
        raise ConfigError(f"which task? Give --task, one of {', '.join(tasks)}")
    if name not in tasks:
        raise ConfigError(f"--task {name}: the model answers {', '.join(tasks)}")
    if tasks[name].kind is TaskKind.IMAGE:
        raise ModelError(
            f"task {name!r} is about images, and this command reads text: export the model "
            "(regionfed-client export --format onnx DIR) and give it images there"
        )
    return tasks[name]


def read_questions(
    lines: Iterable[str], device: ServedModel, *, task: str | None, json_lines: bool, source: str
) -> Iterator[Question]:
    """One question per line: plain text, or JSON objects with `text` and optionally `task`.

    Raises DataError naming the line for anything else.
    """
    default = None if json_lines and task is None else task_named(device, task).name
    for number, line in enumerate(lines, start=1):
        if not json_lines:
            assert default is not None
            yield Question(default, line.strip())
            continue
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError:
            raise DataError(f"{source}, line {number}: not JSON; one object per line") from None
        if not isinstance(found, dict) or not isinstance(found.get("text"), str):
            raise DataError(f"{source}, line {number}: an object with `text` is needed")
        own = found.get("task", default)
        yield Question(task_named(device, own).name, found["text"].strip())


def answer(device: ServedModel, questions: Sequence[Question]) -> list[str]:
    """One answer per question, in order; an empty text has an empty answer."""
    asked = [question for question in questions if question.text]
    if not asked:
        return ["" for _ in questions]
    bench = device.bench
    rows = bench.model.encode([Row(each.task, each.text, "") for each in asked])
    found = iter(predictions(bench.model, bench.flat, rows, device.config.training))
    return [next(found) if question.text else "" for question in questions]


def answers(device: ServedModel, questions: Iterable[Question]) -> Iterator[tuple[Question, str]]:
    """Each question with its answer, a chunk at a time."""
    rest = iter(questions)
    while chunk := list(islice(rest, CHUNK)):
        yield from zip(chunk, answer(device, chunk), strict=True)
