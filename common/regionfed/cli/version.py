"""`regionfed version`."""

from __future__ import annotations

import json

import typer

from regionfed.cli.options import Json

app = typer.Typer(add_completion=False)


@app.command()
def version(as_json: Json = False) -> None:
    """Print the versions of RegionFed and of what it runs on."""
    from regionfed.run.versions import machine, versions

    found = versions()
    if as_json:
        typer.echo(json.dumps({"versions": found, "machine": machine()}, indent=2))
        return
    for name, number in found.items():
        typer.echo(f"{name} {number}")
