"""`regionfed status`: what every tier is doing; a dead run is shown as dead."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from regionfed.bridge.client import BridgeTls
from regionfed.deploy.settings import Settings
from regionfed.errors import ConfigError, RunFailed
from regionfed.status.collect import collect
from regionfed.status.model import BAD, ENDED, FederationStatus
from regionfed.status.show import render
from regionfed.status.sources import Places

app = typer.Typer(add_completion=False)


@app.command()
def status(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of the run; in a container: that of its tier.")
    ] = None,
    daemon: Annotated[
        list[str] | None, typer.Option(help="Ask a region's daemon: REGION=HOST:PORT; repeatable.")
    ] = None,
    superlink: Annotated[
        list[str] | None,
        typer.Option(help="Ask a SuperLink's Runtime API: TIER=HOST:PORT; repeatable."),
    ] = None,
    identity: Annotated[
        Path | None, typer.Option(help="Folder with ca.crt, bridge.crt and bridge.key.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again until the run ends.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one object per look.")] = False,
) -> None:
    """Show what a run is doing, tier by tier.

    Without options a container shows its own tier. Ends with 0, or with 13 if the run has failed or
    is dead.
    """
    places = places_of(
        os.environ, folder=folder, daemons=daemon or [], controls=superlink or [], identity=identity
    )
    found = collect(places)
    if as_json:
        _print(found)
        while watch and found.state not in ENDED:
            time.sleep(every)
            found = collect(places)
            _print(found)
    else:
        found = _show(places, found, watch=watch, every=every)
    if found.state in BAD:
        raise typer.Exit(RunFailed.exit_code)


def places_of(
    environ: Mapping[str, str],
    *,
    folder: Path | None,
    daemons: list[str],
    controls: list[str],
    identity: Path | None,
) -> Places:
    """Whom to ask: what was given, else what this container's environment names.

    Raises `ConfigError` for a word that is not NAME=HOST:PORT, and when there is nobody to ask.
    """
    named = _words(daemons, "--daemon"), _words(controls, "--superlink")
    given = folder is not None or any(named)
    own = Places() if given else _own(environ)
    settings = Settings.from_environment(environ)
    if identity is None and (not given or environ.get("REGIONFED_IDENTITY")):
        identity = settings.identity
    tls = settings.tls and identity is not None
    places = Places(
        folder=folder or own.folder,
        daemons=named[0] or own.daemons,
        controls=named[1] or own.controls,
        tls=_bridge_tls(identity) if tls and identity is not None else None,
        ca=identity / "ca.crt" if tls and identity is not None else None,
    )
    if places.folder is None and not places.daemons and not places.controls:
        raise ConfigError(
            "nobody to ask: give the folder of a run, --daemon REGION=HOST:PORT or --superlink "
            "TIER=HOST:PORT"
        )
    return places


def _own(environ: Mapping[str, str]) -> Places:
    settings = Settings.from_environment(environ)
    tier = "global" if settings.tier == "global" else settings.region
    run = environ.get("REGIONFED_RUN_DIR", "")
    return Places(
        folder=Path(run) if run and (Path(run) / "federation.toml").is_file() else None,
        daemons={tier: str(settings.bridge)} if settings.bridge and settings.region else {},
        controls={tier: str(settings.runtime)} if settings.runtime else {},
    )


def _words(words: list[str], option: str) -> dict[str, str]:
    found = {}
    for word in words:
        name, _, address = word.partition("=")
        if not name or not address.rpartition(":")[0]:
            raise ConfigError(f"{option} {word!r} is not NAME=HOST:PORT")
        found[name] = address
    return found


def _bridge_tls(identity: Path) -> BridgeTls | None:
    if not (identity / "bridge.crt").exists():
        return None
    return BridgeTls(identity / "ca.crt", identity / "bridge.crt", identity / "bridge.key")


def _print(found: FederationStatus) -> None:
    typer.echo(json.dumps(dataclasses.asdict(found)))


def _show(
    places: Places, found: FederationStatus, *, watch: bool, every: float
) -> FederationStatus:
    console = Console(width=None if Console().is_terminal else 160)
    if not watch:
        console.print(render(found))
        return found
    with Live(render(found), console=console, auto_refresh=False) as live:
        while found.state not in ENDED:
            time.sleep(every)
            found = collect(places)
            live.update(render(found), refresh=True)
    return found
