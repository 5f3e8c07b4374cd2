"""`regionfed simulate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
) -> None:
    """Run all tiers in this process, with the same apps as a deployment."""
    from regionfed.cli.execute import execute

    execute(
        _engine,
        name="simulate",
        config_path=config,
        overrides=overrides,
        out=out,
        resume=resume,
        as_json=as_json,
    )


def _engine(config: FederationConfig, folder: RunFolder, progress: ProgressSink) -> Result:
    from regionfed.engine import simulate as run_simulation

    return run_simulation(config, folder, progress)
