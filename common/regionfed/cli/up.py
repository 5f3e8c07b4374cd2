"""`regionfed up`."""

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
def up(
    config: ConfigPath = None,
    out: Out = None,
    overrides: Overrides = None,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Run all tiers as processes of this machine, over loopback gRPC."""
    from regionfed.cli.execute import execute

    execute(
        _engine,
        name="up",
        config_path=config,
        overrides=overrides,
        out=out,
        resume=resume,
        as_json=as_json,
    )


def _engine(config: FederationConfig, folder: RunFolder, progress: ProgressSink) -> Result:
    from regionfed.engine.enrol import enrol
    from regionfed.launch import LocalFederation

    enrol(config, folder)
    return LocalFederation(config, folder, progress).run()
