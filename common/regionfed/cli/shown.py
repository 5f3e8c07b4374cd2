"""Figures for a person, or as one JSON object."""

from __future__ import annotations

import json
import math
from typing import Any

import typer


def show(values: dict[str, Any], lines: list[str], as_json: bool) -> None:
    """Print the lines, or the values as JSON."""
    typer.echo(json.dumps(plain(values), indent=2) if as_json else "\n".join(lines))


def plain(value: Any) -> Any:
    """JSON has no infinity; say it in a word."""
    if isinstance(value, float) and not math.isfinite(value):
        return "infinite"
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
