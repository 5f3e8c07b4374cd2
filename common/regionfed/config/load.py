"""Reads `federation.toml`, the environment and `--set` into one checked `FederationConfig`."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regionfed.config.checks import check
from regionfed.config.explain import explain
from regionfed.config.federation import FederationConfig
from regionfed.config.keys import NAME_OR_FOLDER, path_keys
from regionfed.config.lines import key_lines
from regionfed.config.overrides import (
    Overrides,
    from_assignments,
    from_environment,
    from_mapping,
    lay_over,
)
from regionfed.errors import ConfigError


def load_config(
    path: Path | None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | Iterable[str] = (),
) -> FederationConfig:
    """The configuration of a federation; `path` None stands for the defaults.

    Later sources win: the file, then the environment (`REGIONFED__SECTION__KEY`; `environ` None
    reads the process's own), then `overrides`, which are `section.key=value` texts or typed values
    by dotted key. Relative paths in the file count from the file's folder, others from the
    working folder. Raises ConfigError naming source, key, value, what is allowed and the fix.
    """
    raw, lines = ({}, {}) if path is None else _read(path)
    if path is not None:
        _resolve_paths(raw, base=path.resolve().parent)
    layers: Overrides = {}
    for layer in (
        from_environment(os.environ if environ is None else environ),
        from_mapping(overrides) if isinstance(overrides, Mapping) else from_assignments(overrides),
    ):
        changed: dict[str, Any] = {}
        lay_over(changed, layer)
        _resolve_paths(changed, base=Path.cwd())
        lay_over(
            raw, {place: (_at(changed, place), origin) for place, (_, origin) in layer.items()}
        )
        layers.update(layer)

    def origin(key: str) -> str:
        for place, (_, given_by) in layers.items():
            if f"{'.'.join(place)}.".startswith(f"{key}."):
                return given_by
        if path is None:
            return "built-in configuration"
        line = lines.get(key)
        return f"{path} line {line}" if line else str(path)

    try:
        # Strict JSON mode takes no text for a number and no number for a text, but reads paths.
        config = FederationConfig.model_validate_json(json.dumps(raw, default=str), strict=True)
    except ValidationError as error:
        raise ConfigError(explain(error, origin=origin)) from None
    problems = check(config)
    if problems:
        raise ConfigError(
            "\n".join(f"{origin(problem.key)}: {problem.message}" for problem in problems)
        )
    return config


def _read(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The tables of a file, and the line of each key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"configuration file {path} does not exist; check the path (recipes/demo.toml is one "
            "that runs)"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; give the TOML file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason}") from None
    except OSError as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error.strerror}") from None
    try:
        return tomllib.loads(text), key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _resolve_paths(raw: dict[str, Any], *, base: Path) -> None:
    """Make relative paths absolute, in place."""
    for key in path_keys() | NAME_OR_FOLDER:
        *place, name = key.split(".")
        table: Any = raw
        for part in place:
            table = table.get(part) if isinstance(table, dict) else None
        value = table.get(name) if isinstance(table, dict) else None
        if not isinstance(value, str) or not value:
            continue
        if key in NAME_OR_FOLDER and not value.startswith(("./", "../", "/", "~")):
            continue
        table[name] = os.path.normpath(base / Path(value).expanduser())


def _at(raw: dict[str, Any], place: tuple[str, ...]) -> Any:
    value: Any = raw
    for part in place:
        value = value[part]
    return value
