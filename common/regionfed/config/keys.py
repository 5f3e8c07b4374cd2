"""The tree of the federation file's keys, walked from the typed sections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from regionfed.config.base import Section
from regionfed.config.federation import FederationConfig

STRING_PATHS = frozenset({"data.files.path"})
"""Keys of type string that are always a path (or a pattern of paths)."""

NAME_OR_FOLDER = frozenset({"model.checkpoint", "model.tokenizer", "data.hub.name"})
"""Keys that are a folder when they start with './', '../', '/' or '~', and a hub name otherwise."""


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself."""
    if get_origin(annotation) in (Union, UnionType):
        return get_args(annotation)
    return (annotation,)


def section_of(annotation: Any) -> type[Section] | None:
    """The section class behind an annotation such as `LoraConfig | None`, if there is one."""
    for option in alternatives(annotation):
        if isinstance(option, type) and issubclass(option, Section):
            return option
    return None


def table_of(annotation: Any) -> type[Section] | None:
    """The section class behind `dict[str, SomeSection]`, whose keys the user names."""
    if get_origin(annotation) is dict:
        return section_of(get_args(annotation)[1])
    return None


def fields() -> Iterator[tuple[str, FieldInfo]]:
    """Dotted key and field of every value in the file; keys that the user names are `NAME`."""

    def walk(section: type[Section], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
        for name, field in section.model_fields.items():
            key = f"{prefix}{name}"
            inner = section_of(field.annotation)
            table = table_of(field.annotation)
            if inner is not None:
                yield from walk(inner, f"{key}.")
            elif table is not None:
                yield from walk(table, f"{key}.NAME.")
            else:
                yield key, field

    yield from walk(FederationConfig, "")


def path_keys() -> frozenset[str]:
    """Keys whose values are paths of this machine."""
    typed = {key for key, field in fields() if Path in alternatives(field.annotation)}
    return frozenset(typed | STRING_PATHS)


def section_at(parts: tuple[str, ...]) -> type[Section] | None:
    """The section class at a dotted place, or None where the file has no section."""
    section: type[Section] | None = FederationConfig
    remaining = list(parts)
    while remaining and section is not None:
        field = section.model_fields.get(remaining.pop(0))
        if field is None:
            return None
        table = table_of(field.annotation)
        if table is not None and remaining:
            remaining.pop(0)
            section = table
        else:
            section = section_of(field.annotation)
    return section
