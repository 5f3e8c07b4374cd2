"""Telling a model which region an input comes from: the region token of benchmark section 2.

Only the systems that are meant to know the region use it (Centralized + regional weighting, FedAvg
with the token). Text gets one leading word, images a bright block in their first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regionfed.data.types import Row
from regionfed.errors import DataError
from regionfed.tasks.registry import OUTSIDE
from regionfed.tasks.spec import TaskKind, TaskSpec

_BLOCK = 2
"""Width in pixels of an image's mark."""


def mark_word(region: int) -> str:
    """The token of the region with that place in the order of regions."""
    return f"region{region:03d}"


def marked(rows: Sequence[Row], *, region: int, tasks: Sequence[TaskSpec]) -> list[Row]:
    """Rows that carry their region. A tagging row gains one token, which is outside any entity.

    Raises `DataError` where an image is too narrow for a mark of that region.
    """
    kinds = {task.name: task.kind for task in tasks}
    word = mark_word(region)
    found: list[Row] = []
    for row in rows:
        if row.image is not None:
            found.append(_marked_image(row, region=region))
            continue
        target = f"{OUTSIDE} {row.target}" if kinds[row.task] is TaskKind.TAGGING else row.target
        found.append(replace(row, text=f"{word} {row.text}", target=target))
    return found


def unmarked_answer(answer: str, row: Row, *, kind: TaskKind) -> str:
    """An answer to a marked row as an answer to the row without its mark."""
    if kind is TaskKind.TAGGING and row.image is None:
        return " ".join(answer.split()[1:])
    return answer


def _marked_image(row: Row, *, region: int) -> Row:
    assert row.image is not None
    per_row = row.image.shape[1] // _BLOCK
    line, place = divmod(region, per_row)
    if line >= row.image.shape[0]:
        raise DataError(f"an image {row.image.shape} has no room for the mark of region {region}")
    image = row.image.copy()
    image[line, place * _BLOCK : (place + 1) * _BLOCK] = 255
    return replace(row, image=image)
