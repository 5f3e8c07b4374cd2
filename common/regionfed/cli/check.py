"""`regionfed check`: names what would stop a process of the federation, and how to fix it."""

from __future__ import annotations

import dataclasses
import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from regionfed.checks.plan import all_checks
from regionfed.checks.result import CheckResult, Status, exit_code
from regionfed.checks.steps import TIMEOUT_SECONDS
from regionfed.checks.target import Target
from regionfed.deploy.commands import ROLES
from regionfed.deploy.settings import Settings

app = typer.Typer(add_completion=False)

_STYLES = {
    Status.OK: "green",
    Status.WARNING: "yellow",
    Status.FAILED: "red",
    Status.SKIPPED: "dim",
}


class RoleName(StrEnum):
    """A kind of process."""

    local = "local"
    superlink = "superlink"
    superexec = "superexec"
    coordinator = "coordinator"
    uplink = "uplink"
    client = "client"


@app.command()
def check(
    config: Annotated[
        Path | None,
        typer.Argument(help="The federation file; default: the variable REGIONFED_CONFIG."),
    ] = None,
    role: Annotated[
        RoleName, typer.Option(help="Process to check; 'local' looks at file, data and machine.")
    ] = RoleName.local,
    region: Annotated[str, typer.Option(help="Name of the region.")] = "",
    client: Annotated[str, typer.Option(help="Name of the client.")] = "",
    superlink: Annotated[str, typer.Option(help="HOST:PORT of the SuperLink's Fleet API.")] = "",
    runtime: Annotated[str, typer.Option(help="HOST:PORT of the tier's Runtime API.")] = "",
    bridge: Annotated[str, typer.Option(help="HOST:PORT of the coordinator's daemon.")] = "",
    identity: Annotated[str, typer.Option(help="Folder with this site's keys.")] = "",
    ca: Annotated[str, typer.Option(help="ca.crt of the SuperLink that is dialled.")] = "",
    state: Annotated[str, typer.Option(help="Folder of the process's state.")] = "",
    running: Annotated[
        bool, typer.Option("--running", help="The process runs: its ports are rightly taken.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=60, help="Seconds for one answer of a peer.")
    ] = TIMEOUT_SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Check a process before or during a run.

    Options left out are read from the container's environment (REGIONFED_...). Ends with 0 if
    nothing failed, else with the exit code of the first failure; docs/check-codes.md explains the
    codes.
    """
    given = {
        "REGIONFED_CONFIG": "" if config is None else str(config),
        "REGIONFED_REGION": region,
        "REGIONFED_CLIENT": client,
        "REGIONFED_FLEET": superlink,
        "REGIONFED_RUNTIME": runtime,
        "REGIONFED_BRIDGE": bridge,
        "REGIONFED_IDENTITY": identity,
        "REGIONFED_PEER_CA": ca,
        "REGIONFED_STATE": state,
    }
    settings = Settings.from_environment(os.environ | {k: v for k, v in given.items() if v})
    target = _target(settings, role, running=running)
    results = all_checks(target, timeout=timeout)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(result) for result in results], indent=2))
    else:
        Console().print(_table(results))
        for result in results:
            if result.fix:
                Console().print(f"[bold]{result.check}[/bold]: {result.fix}", highlight=False)
    raise typer.Exit(exit_code(results))


def _target(settings: Settings, role: RoleName, *, running: bool) -> Target:
    if role is RoleName.local:
        return Target(
            role="client" if settings.client else "superexec",
            config=settings.config,
            region=settings.region,
            client=settings.client,
            folder=Path.cwd(),
        )
    target = ROLES[role.value](settings).target
    return dataclasses.replace(target, binds=()) if running else target


def _table(results: list[CheckResult]) -> Table:
    table = Table("check", "code", "status", "finding")
    for result in results:
        style = _STYLES[result.status]
        table.add_row(result.check, result.code, f"[{style}]{result.status}[/]", result.message)
    return table
