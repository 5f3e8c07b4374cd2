"""A task: what is asked, which labels exist, how an answer is scored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TaskKind(StrEnum):
    """The shape of a task's answer."""

    CLASSIFICATION = "classification"
    TEXT = "text"
    TAGGING = "tagging"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task.

    `labels` lists the label names of classification, tagging (BIO tags) and image tasks, in a
    fixed order shared by all tiers; it is empty for text tasks. `prefix` is put before the input
    of a text-to-text model.
    """

    name: str
    kind: TaskKind
    labels: tuple[str, ...] = ()
    prefix: str = ""
