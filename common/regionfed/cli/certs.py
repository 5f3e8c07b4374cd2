"""`regionfed certs`: authorities, certificates, requests and node keys."""

from __future__ import annotations

import datetime as dt
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from regionfed.identity.authority import AUTHORITY_DAYS, create_authority, load_authority
from regionfed.identity.certificates import (
    CERTIFICATE_DAYS,
    create_certificate,
    create_request,
    load_request,
    renew_certificate,
    sign_request,
)
from regionfed.identity.devices import create_device, merge_enrolments
from regionfed.identity.inventory import Entry, inventory
from regionfed.identity.keys import create_node_key

app = typer.Typer(no_args_is_help=True, help="Certificates and keys; private keys stay on site.")

Folder = Annotated[Path, typer.Option("--dir", "-d", help="Folder that is written.")]
AuthorityFolder = Annotated[Path, typer.Option("--ca", help="Folder with ca.crt and ca.key.")]
Hosts = Annotated[list[str], typer.Option("--host", help="Host name or IP address; repeatable.")]
Days = Annotated[int, typer.Option(min=1, max=AUTHORITY_DAYS, help="Days until it ends.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


class Use(StrEnum):
    """What a certificate is for."""

    server = "server"
    client = "client"


@app.command("init-ca")
def init_ca(
    folder: Folder = Path("certs/ca"),
    name: Annotated[str, typer.Option(help="Name of the authority.")] = "RegionFed",
    days: Days = AUTHORITY_DAYS,
    force: Force = False,
) -> None:
    """Make a private certificate authority (ca.crt, ca.key)."""
    authority = create_authority(folder, name=name, days=days, force=force)
    _made(folder / "ca.crt", authority.certificate.not_valid_after_utc)
    typer.echo(f"{folder / 'ca.key'} signs for this site: keep it here, and keep a copy safe.")


@app.command()
def server(
    hosts: Hosts,
    folder: Folder = Path("certs"),
    authority: AuthorityFolder = Path("certs/ca"),
    name: Annotated[str, typer.Option(help="File name without suffix.")] = "server",
    days: Days = CERTIFICATE_DAYS,
    force: Force = False,
) -> None:
    """Make a server's key and certificate for all names under which it is dialled."""
    files = create_certificate(
        load_authority(authority),
        folder,
        name=name,
        hosts=hosts,
        purpose="server",
        days=days,
        force=force,
    )
    typer.echo(f"{files.certificate} and {files.key} for {', '.join(hosts)}")


@app.command()
def client(
    name: Annotated[str, typer.Argument(help="Name of the client, and of the files.")],
    folder: Folder = Path("certs"),
    authority: AuthorityFolder = Path("certs/ca"),
    days: Days = CERTIFICATE_DAYS,
    force: Force = False,
) -> None:
    """Make a client certificate for mutual TLS, for example of a coordinator's parts."""
    files = create_certificate(
        load_authority(authority),
        folder,
        name=name,
        hosts=[],
        purpose="client",
        days=days,
        force=force,
    )
    typer.echo(f"{files.certificate} and {files.key}")


@app.command()
def request(
    name: Annotated[str, typer.Argument(help="File name without suffix, for example 'server'.")],
    hosts: Annotated[
        list[str] | None, typer.Option("--host", help="Host name or IP address; repeatable.")
    ] = None,
    folder: Folder = Path("certs"),
    force: Annotated[bool, typer.Option("--force", help="Make a fresh key.")] = False,
) -> None:
    """Make a signing request here; its key stays here."""
    path, key = create_request(folder, name=name, hosts=hosts or [], force=force)
    typer.echo(f"Hand {path} to the authority (`regionfed certs sign`). {key} stays here.")


@app.command()
def sign(
    csr: Annotated[Path, typer.Argument(help="The request, NAME.csr.")],
    out: Annotated[Path, typer.Option(help="Where the certificate is written.")],
    authority: AuthorityFolder = Path("certs/ca"),
    allow: Annotated[
        list[str] | None, typer.Option(help="Name that this site may use; repeatable.")
    ] = None,
    use: Annotated[Use, typer.Option(help="server or client")] = Use.server,
    days: Days = CERTIFICATE_DAYS,
    force: Force = False,
) -> None:
    """Sign another site's request for names that you allow it."""
    sign_request(
        load_authority(authority),
        load_request(csr),
        out,
        allowed_hosts=allow or [],
        purpose="server" if use is Use.server else "client",
        days=days,
        force=force,
    )
    typer.echo(f"{out}: hand it back, together with {authority / 'ca.crt'}.")


@app.command()
def node(
    name: Annotated[str, typer.Argument(help="Name of the node.")],
    folder: Folder = Path("certs/nodes"),
    force: Force = False,
) -> None:
    """Make the key pair with which a node signs in to its SuperLink."""
    private, public = create_node_key(folder, name=name, force=force)
    typer.echo(f"{private} stays here. Hand {public} to the SuperLink's owner, who registers it:")
    typer.echo(f"  flwr supernode register {public.name} SUPERLINK --name {name}")


@app.command()
def device(
    name: Annotated[str, typer.Argument(help="Name of the client.")],
    folder: Folder = Path("certs/devices"),
    force: Force = False,
) -> None:
    """Make a client's keys for secure aggregation, and the enrolment for its region."""
    enrolment = create_device(folder / f"{name}.key", name=name, force=force)
    typer.echo(f"{folder / f'{name}.key'} stays here. Hand {enrolment} to the region.")


@app.command()
def directory(
    enrolments: Annotated[list[Path], typer.Argument(help="Enrolment files of the clients.")],
    out: Annotated[Path, typer.Option(help="The region's directory file.")],
) -> None:
    """Join the clients' enrolments to a region's directory for secure aggregation."""
    joined = merge_enrolments(enrolments, out)
    typer.echo(f"{out}: {len(joined.entries)} devices, digest {joined.digest.hex()}")


@app.command()
def renew(
    certificates: Annotated[list[Path], typer.Argument(help="Certificates to renew.")],
    authority: AuthorityFolder = Path("certs/ca"),
    days: Days = CERTIFICATE_DAYS,
) -> None:
    """Renew certificates with the same keys and names; restart the servers that use them."""
    signer = load_authority(authority)
    for path in certificates:
        renew_certificate(signer, path, days=days)
        typer.echo(f"{path} renewed")


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="Folder of keys and certificates.")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """List keys and certificates with names, expiry and problems; exit 8 if there is one."""
    now = dt.datetime.now(dt.UTC)
    entries = inventory(folder, now=now)
    if as_json:
        typer.echo(json.dumps([_record(entry, now) for entry in entries], indent=2))
    else:
        Console().print(_table(entries, now))
    if any(entry.problem for entry in entries):
        raise typer.Exit(8)


def _made(path: Path, ends: dt.datetime) -> None:
    typer.echo(f"{path} (until {ends:%Y-%m-%d})")


def _record(entry: Entry, now: dt.datetime) -> dict[str, object]:
    return {
        "path": str(entry.path),
        "kind": entry.kind,
        "names": list(entry.names),
        "ends": entry.ends.isoformat() if entry.ends else None,
        "days_left": entry.days_left(now),
        "problem": entry.problem,
    }


def _table(entries: list[Entry], now: dt.datetime) -> Table:
    table = Table("file", "kind", "names", "ends", "days left", "problem")
    for entry in entries:
        days = entry.days_left(now)
        table.add_row(
            str(entry.path),
            entry.kind,
            ", ".join(entry.names),
            f"{entry.ends:%Y-%m-%d}" if entry.ends else "",
            "" if days is None else str(days),
            entry.problem,
        )
    return table
