"""`regionfed report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def report(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run.")],
) -> None:
    """Write report.html of a run anew, also of one that failed or still runs."""
    from regionfed.report import write_report

    typer.echo(write_report(run_dir))
