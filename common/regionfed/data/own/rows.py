"""Records of a table turned into rows, each checked against its task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regionfed.data.own.table import read_table
from regionfed.data.partition import Split, split_by_hash
from regionfed.data.placement import SPLITS
from regionfed.data.places import shown
from regionfed.data.sections import FilesConfig
from regionfed.data.types import Row
from regionfed.errors import DataError
from regionfed.tasks.spec import TaskKind, TaskSpec


@dataclass(frozen=True, slots=True)
class Record:
    """A row with what places it; a name is empty where the section declares no column for it."""

    row: Row
    split: Split
    region: str
    client: str
    category: str


def read_records(
    path: Path, config: FilesConfig, *, tasks: Sequence[TaskSpec], known: Sequence[str]
) -> list[Record]:
    """The rows of the chosen tasks in one file.

    `known` are the tasks that may occur; those not chosen are passed over. Raises `DataError`
    naming the file and the row for an answer that its task does not allow.
    """
    return list(_records(path, config, tasks={task.name: task for task in tasks}, known=known))


def _records(
    path: Path, config: FilesConfig, *, tasks: Mapping[str, TaskSpec], known: Sequence[str]
) -> Iterator[Record]:
    optional = (
        config.task_column,
        config.region_column,
        config.client_column,
        config.category_column,
        config.split_column,
    )
    columns = [config.text_column, config.target_column, *(name for name in optional if name)]
    for number, record in enumerate(read_table(path, kind=config.format, columns=columns), start=1):
        where = f"{path}, row {number}"
        values = {name: _text(record[name]) for name in columns}
        task_name = values[config.task_column] if config.task_column else config.task or ""
        if task_name not in known:
            raise DataError(
                f"{where}: '{task_name}' is no task; allowed are {shown(known)}, and a task of "
                "your own is defined in [data.custom.NAME]"
            )
        task = tasks.get(task_name)
        if task is None:
            continue
        row = Row(task.name, values[config.text_column], values[config.target_column])
        _check(row, task, where=where)
        yield Record(
            row=row,
            split=_split(row, values, config, where=where),
            region=_name(values, config.region_column, where=where),
            client=_name(values, config.client_column, where=where),
            category=values.get(config.category_column or "", ""),
        )


def _check(row: Row, task: TaskSpec, *, where: str) -> None:
    if task.kind is TaskKind.IMAGE:
        raise DataError(
            f"{where}: task '{task.name}' asks for images, which tables do not hold; use source "
            "'handwriting' or 'hub'"
        )
    if not row.text:
        raise DataError(f"{where}: the text is empty; fill it in or take the row out")
    answers = [row.target]
    if task.kind is TaskKind.TAGGING:
        answers = row.target.split()
        tokens = len(row.text.split())
        if len(answers) != tokens:
            raise DataError(
                f"{where}: {len(answers)} tags for {tokens} tokens; task '{task.name}' wants one "
                "tag per token, separated by single spaces"
            )
    if task.kind is TaskKind.TEXT:
        if not row.target:
            raise DataError(f"{where}: the right answer is empty; fill it in or take the row out")
        return
    wrong = next((answer for answer in answers if answer not in task.labels), None)
    if wrong is not None:
        raise DataError(
            f"{where}: '{wrong}' is no label of task '{task.name}'; allowed are "
            f"{shown(task.labels)}. Correct the row, or list your labels in "
            f"[data.custom.{task.name}]"
        )


def _split(row: Row, values: Mapping[str, str], config: FilesConfig, *, where: str) -> Split:
    if config.split_column is None:
        return split_by_hash(
            row.text,
            validation_share=config.validation_share,
            test_share=config.test_share,
        )
    given = values[config.split_column]
    for split in SPLITS:
        if given == split:
            return split
    raise DataError(
        f"{where}: '{given}' in column '{config.split_column}' is no split; allowed are "
        f"{shown(SPLITS)}"
    )


def _name(values: Mapping[str, str], column: str | None, *, where: str) -> str:
    if column is None:
        return ""
    if not values[column]:
        raise DataError(f"{where}: column '{column}' is empty; every row needs one")
    return values[column]


def _text(value: Any) -> str:
    """A cell as text: tokens in a list are joined, white space becomes single spaces."""
    if value is None:
        return ""
    parts = value if isinstance(value, list) else [value]
    return " ".join(" ".join(str(part) for part in parts).split())
