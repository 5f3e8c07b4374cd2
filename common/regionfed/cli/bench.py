"""`regionfed bench`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="Recipe file, as those in recipes/.")
    ],
    size: Annotated[
        Literal["smoke", "full"], typer.Option("--size", help="How much of it.")
    ] = "smoke",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the results; left out: bench/NAME-SIZE here."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Worker processes; left out: one per usable core."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON only on standard output.")
    ] = False,
) -> None:
    """Compare systems over seeds and settings; started again, it goes on where it stopped."""
    from regionfed.bench.main import run_bench

    workers = jobs or (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    run_bench(recipe, size=size, out=out, workers=workers, as_json=as_json)
