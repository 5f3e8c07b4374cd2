"""Writes a configuration back as a federation file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w

from regionfed.config.federation import FederationConfig
from regionfed.config.keys import path_keys


def resolved_toml(config: FederationConfig) -> str:
    """Every key with its value; paths are absolute, keys without a value are left out.

    Reading it back gives an equal configuration, except that relative paths became absolute.
    """
    raw = _without_none(config.model_dump(mode="json"))
    for key in path_keys():
        *place, name = key.split(".")
        table: Any = raw
        for part in place:
            table = table.get(part, {})
        if table.get(name):
            table[name] = str(Path(table[name]).absolute())
    return tomli_w.dumps(raw)


def write_resolved(config: FederationConfig, path: Path) -> None:
    """Write the resolved configuration so that a crash leaves the old file or the new one."""
    # Imported here: the run package reads configurations itself.
    from regionfed.run.files import write_atomically

    write_atomically(path, resolved_toml(config).encode())


def _without_none(value: Any) -> Any:
    """TOML has no null; every key that may be null is null by default."""
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return value
