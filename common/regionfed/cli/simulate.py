"""`regionfed simulate`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from regionfed.cli.options import ConfigPath, Json, Out, Overrides, Resume

if TYPE_CHECKING:
    from regionfed.config.federation import FederationConfig
    from regionfed.run.folder import RunFolder
    from regionfed.run.progress import ProgressSink
    from regionfed.run.result import Result

app = typer.Typer(add_completion=False)


@app.command()
def simulate(
    config: ConfigPath = None,
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = False,
    as_json: Json = False,
    workers: Annotated[
        int,
        typer.Option(
            min=0, help="Processes for the clients' work; 0: as many as suit the run and machine."
        ),
    ] = 0,
) -> None:
    """Run all tiers on this machine without a network, with the same apps as a deployment."""
    from regionfed.cli.execute import execute

    execute(
        partial(_engine, workers=workers),
        name="simulate",
        config_path=config,
        overrides=overrides,
        out=out,
        resume=resume,
        as_json=as_json,
    )


def _engine(
    config: FederationConfig, folder: RunFolder, progress: ProgressSink, *, workers: int
) -> Result:
    from regionfed.engine import simulate as run_simulation

    return run_simulation(config, folder, progress, workers=workers)
