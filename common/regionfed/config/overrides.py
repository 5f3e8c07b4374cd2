"""Values from the environment and from `--set`, laid over those of the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from regionfed.errors import ConfigError

PREFIX = "REGIONFED__"

Overrides = dict[tuple[str, ...], tuple[Any, str]]
"""Value and origin (in words) by place in the file."""


def from_environment(environ: Mapping[str, str]) -> Overrides:
    """Overrides of the form `REGIONFED__SECTION__KEY=value`, in the order of their names.

    Raises ConfigError when a variable names no section and key, or its value is broken TOML.
    """
    found: Overrides = {}
    for name in sorted(environ):
        if not name.startswith(PREFIX):
            continue
        place = tuple(part.lower() for part in name.removeprefix(PREFIX).split("__"))
        origin = f"environment variable {name}"
        if len(place) < 2 or not all(place):
            raise ConfigError(f"{origin}: write it as {PREFIX}SECTION__KEY, as {PREFIX}RUN__ROUNDS")
        found[place] = (parse_value(environ[name], origin=origin), origin)
    return found


def from_assignments(assignments: Iterable[str]) -> Overrides:
    """Overrides of the form `section.key=value`.

    Raises ConfigError when one has no '=' or names no section.
    """
    found: Overrides = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        place = tuple(part.strip() for part in key.split("."))
        origin = f"--set {key.strip()}"
        if not equals or len(place) < 2 or not all(place):
            raise ConfigError(
                f"--set {text!r}: write it as section.key=value, for example --set run.rounds=10"
            )
        found[place] = (parse_value(value.strip(), origin=origin), origin)
    return found


def from_mapping(values: Mapping[str, Any]) -> Overrides:
    """Overrides given by a caller: typed value by dotted key."""
    return {tuple(key.split(".")): (value, f"override {key}") for key, value in values.items()}


def parse_value(text: str, *, origin: str) -> Any:
    """A TOML value; a bare word that is not TOML is a string, so that quotes may be left out.

    Raises ConfigError when something that starts like a TOML string, array or table is broken.
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in ("[", "{", '"', "'"):
            raise ConfigError(f"{origin}: {text!r} is not a TOML value ({error})") from None
        return text
    # A line break in the text could smuggle in further keys; then it is just a string.
    return parsed["value"] if len(parsed) == 1 else text


def lay_over(raw: dict[str, Any], overrides: Overrides) -> None:
    """Put each override into the tables of `raw`, making tables on the way.

    Raises ConfigError when a part of the place is a value and not a table.
    """
    for place, (value, origin) in overrides.items():
        table = raw
        for depth, part in enumerate(place[:-1], start=1):
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{origin}: {'.'.join(place[:depth])} is a value, not a section")
            table = inner
        table[place[-1]] = value
