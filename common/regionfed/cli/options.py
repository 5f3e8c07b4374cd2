"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regionfed.config.federation import FederationConfig

ConfigPath = Annotated[
    Path | None,
    typer.Argument(
        metavar="[CONFIG]", help="Federation file (TOML); left out: the built-in demonstration."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set one key; repeatable."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder of the run: new, empty, or to be resumed."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only on standard output.")]


def read_config(path: Path | None, overrides: list[str] | None) -> FederationConfig:
    """The configuration that a command was given. Raises ConfigError."""
    from regionfed.config.demo import DEMO_FILE
    from regionfed.config.load import load_config

    return load_config(path or DEMO_FILE, overrides=overrides or ())
