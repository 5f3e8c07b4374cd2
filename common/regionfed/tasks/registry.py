"""The standard tasks, and the custom ones of the configuration."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Protocol

from regionfed.errors import ConfigError
from regionfed.tasks.spec import TaskKind, TaskSpec

OUTSIDE = "o"
"""Tag of a token that belongs to no entity."""

BUILTIN_INTENTS = ("buy", "compare", "gift", "repair", "discount", "review", "track", "return")
"""Intents of the built-in generator."""

QUERY_INTENTS = (
    "specific_item",
    "feature",
    "brand",
    "physical_spec",
    "generic_product",
    "audience",
    "occasion_or_constraint",
    "theme_or_compat",
)
"""Intents of the real queries, derived by a rule from human spans (benchmark section 3)."""

ENTITY_TYPES = ("product", "brand", "model", "audience", "attribute")
"""Entity types of the built-in generator and of the column `labels5` of the real queries."""

ALTERNATIVE_ENTITY_TYPES = ("product", "brand", "color", "material", "size")
"""Entity types of the column `labels5_alt` of the real queries."""

STARS = ("1", "2", "3", "4", "5")
"""Star ratings."""

RELEVANCE = ("exact", "substitute", "complement", "irrelevant")
"""The classes of ESCI: how well a product fits a query."""

CHARACTERS = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
"""The 62 characters in the label order of Char74K and FEMNIST."""


class TaskSettings(Protocol):
    """What the configuration says of a custom task."""

    @property
    def kind(self) -> TaskKind:
        """Shape of the answer."""

    @property
    def labels(self) -> list[str]:
        """Label names."""

    @property
    def prefix(self) -> str:
        """Put before the input of a text-to-text model."""


def intent_task(labels: Sequence[str] = BUILTIN_INTENTS) -> TaskSpec:
    """What the customer wants, one label per query."""
    return TaskSpec("intent", TaskKind.CLASSIFICATION, tuple(labels), "intent:")


def spell_task() -> TaskSpec:
    """The query as it should have been written."""
    return TaskSpec("spell", TaskKind.TEXT, (), "spell:")


def ner_task(types: Sequence[str] = ENTITY_TYPES) -> TaskSpec:
    """The entity type of every token, `o` outside of entities (five types and O: no B- or I-)."""
    return TaskSpec("ner", TaskKind.TAGGING, (*types, OUTSIDE), "ner:")


def sentiment_task(labels: Sequence[str] = STARS) -> TaskSpec:
    """The stars that go with a review."""
    return TaskSpec("sentiment", TaskKind.CLASSIFICATION, tuple(labels), "sentiment:")


def relevance_task() -> TaskSpec:
    """How well a product fits a query: the four classes of ESCI."""
    return TaskSpec("relevance", TaskKind.CLASSIFICATION, RELEVANCE, "relevance:")


def characters_task() -> TaskSpec:
    """Which of 62 characters an image shows."""
    return TaskSpec("characters", TaskKind.IMAGE, CHARACTERS)


STANDARD: Mapping[str, TaskSpec] = {
    task.name: task
    for task in (
        intent_task(),
        spell_task(),
        ner_task(),
        sentiment_task(),
        relevance_task(),
        characters_task(),
    )
}
"""The standard tasks by name, with their usual labels."""


def select_tasks(
    offered: Sequence[TaskSpec],
    *,
    chosen: Sequence[str],
    custom: Mapping[str, TaskSettings],
    source: str,
) -> tuple[TaskSpec, ...]:
    """The chosen tasks in the order of `chosen`; all that the source offers when it is empty.

    A custom task replaces an offered one of its name. Raises `ConfigError` for a name that is
    neither offered nor defined.
    """
    known = {task.name: task for task in offered}
    for name, settings in custom.items():
        prefix = settings.prefix or f"{name}:"
        known[name] = TaskSpec(name, settings.kind, tuple(settings.labels), prefix)
    names = list(chosen) or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"[data] tasks names {unknown}, which source '{source}' does not have; allowed are "
            f"{sorted(known)}, and a task of your own is defined in [data.custom.NAME]"
        )
    return tuple(known[name] for name in names)
