"""`regionfed diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regionfed.cli.options import ConfigPath, Json, Out, Overrides

if TYPE_CHECKING:
    from regionfed.config.federation import FederationConfig
    from regionfed.diagnosis.report import DiagnosisReport
    from regionfed.diagnosis.settings import DiagnosisSettings
    from regionfed.run.folder import RunFolder

app = typer.Typer(add_completion=False)


@app.command()
def diagnose(
    config: ConfigPath = None,
    out: Out = None,
    overrides: Overrides = None,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", help="Measuring rounds; the model stands still.")
    ] = 2,
    warmup: Annotated[
        int, typer.Option("--warmup", metavar="N", help="FedAvg rounds before; 0 if pretrained.")
    ] = 6,
    groups: Annotated[
        int,
        typer.Option("--groups", metavar="N", help="Client groups per region; 0: by their number."),
    ] = 0,
    up: Annotated[
        bool, typer.Option("--up", help="Through real processes of this machine.")
    ] = False,
    deployed: Annotated[
        str | None,
        typer.Option("--deployed", metavar="HOST:PORT", help="Ask the federation running there."),
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="With --deployed: its authority.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure whether regions conflict, before deciding how to train: is a global model enough?"""
    from rich.console import Console

    from regionfed.cli.execute import log_to
    from regionfed.cli.failure import keep_logs_in
    from regionfed.cli.options import read_config
    from regionfed.diagnosis.page import write_page
    from regionfed.diagnosis.settings import DiagnosisSettings, require_diagnosable
    from regionfed.diagnosis.table import print_diagnosis
    from regionfed.errors import ConfigError
    from regionfed.run.folder import RunFolder

    settings = DiagnosisSettings.made(warmup=warmup, rounds=rounds, groups=groups)
    if up and deployed:
        raise ConfigError("--up and --deployed are two ways to reach clients; give one")
    loaded = read_config(config, overrides)
    require_diagnosable(loaded)
    named = loaded.model_copy(
        update={"run": loaded.run.model_copy(update={"name": f"diagnose-{loaded.run.name}"[:64]})}
    )
    folder = RunFolder.create(named, out=out)
    keep_logs_in(folder.logs)
    log_to(folder.logs / "diagnose.log")
    typer.echo(f"folder {folder.path}", err=True)
    report = _measure(loaded, folder, settings, up=up, deployed=deployed, ca=ca)
    page = write_page(report, folder.path)
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
        return
    console = Console()
    print_diagnosis(report, console)
    console.print(f"page {page}", markup=False, soft_wrap=True)


def _measure(
    config: FederationConfig,
    folder: RunFolder,
    settings: DiagnosisSettings,
    *,
    up: bool,
    deployed: str | None,
    ca: Path | None,
) -> DiagnosisReport:
    """The diagnosis by the way that was asked for."""
    from regionfed.cli.execute import terminated_like_interrupted
    from regionfed.cli.watch import watching

    if deployed is not None:
        from regionfed.diagnosis.deployed import diagnose_deployed

        return diagnose_deployed(config, folder, settings, control=deployed, ca=ca)
    with terminated_like_interrupted(), watching(settings.total) as progress:
        if up:
            from regionfed.diagnosis.up import diagnose_processes

            return diagnose_processes(config, folder, settings, progress)
        from regionfed.engine.diagnose import diagnose_here

        return diagnose_here(config, folder, settings, progress)
