"""Command line and environment of the coordinator's daemon."""

from __future__ import annotations

import argparse
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regionfed.errors import ConfigError
from regionfed.version import own_versions
from regionfed_coordinator.daemon.server import ServerTls


@dataclass(frozen=True)
class DaemonOptions:
    """What one daemon is told. `advertise` is the address at which its two faces dial it."""

    region: str
    bind: str
    advertise: str
    state_dir: Path
    superlink: str
    superlink_ca: Path | None
    tls: ServerTls | None
    keep: int


_FLAGS: tuple[tuple[str, str, str, str], ...] = (
    # flag, environment variable, default, help
    ("--region", "REGIONFED_REGION", "", "name of the region"),
    ("--bind", "REGIONFED_BIND", "127.0.0.1:9095", "HOST:PORT to listen on"),
    (
        "--advertise",
        "REGIONFED_ADVERTISE",
        "",
        "HOST:PORT at which the region's ServerApp reaches this daemon (default: --bind)",
    ),
    ("--state-dir", "REGIONFED_STATE_DIR", "", "folder of jobs and region state"),
    ("--superlink", "REGIONFED_SUPERLINK", "", "HOST:PORT of the regional SuperLink's HTTP API"),
    ("--superlink-ca", "REGIONFED_SUPERLINK_CA", "", "CA certificate of that SuperLink"),
    ("--cert", "REGIONFED_CERT", "", "this daemon's certificate"),
    ("--key", "REGIONFED_KEY", "", "this daemon's private key"),
    ("--ca", "REGIONFED_CA", "", "CA certificate of the callers (mutual TLS)"),
    ("--keep", "REGIONFED_KEEP_JOBS", "4", "finished jobs kept for replay"),
)


def parse_options(
    arguments: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ
) -> DaemonOptions:
    """Read flags, then the environment, then defaults.

    Raises ConfigError for what is missing or does not fit together.
    """
    parser = argparse.ArgumentParser(
        prog="regionfed-coordinator",
        description="The daemon of one region's coordinator: jobs, region state, regional run.",
        epilog="Every flag has an environment variable; the flag wins.",
    )
    parser.add_argument("--version", action="version", version=str(own_versions()))
    for flag, variable, default, text in _FLAGS:
        parser.add_argument(
            flag, default=environ.get(variable) or default, help=f"{text} [{variable}]"
        )
    parser.add_argument(
        "--insecure",
        action="store_true",
        default=environ.get("REGIONFED_INSECURE", "") == "1",
        help="listen without TLS beyond loopback [REGIONFED_INSECURE=1]",
    )
    given = parser.parse_args(arguments)
    for name in ("region", "state_dir", "superlink"):
        if not getattr(given, name):
            flag, variable = next(
                (f, v) for f, v, _, _ in _FLAGS if f == "--" + name.replace("_", "-")
            )
            raise ConfigError(f"{flag} is missing; give it or set {variable}")
    host = _host(given.bind, "--bind")
    advertise = given.advertise or given.bind
    if _host(advertise, "--advertise") in ("0.0.0.0", "[::]"):
        raise ConfigError(
            f"{advertise} is not an address that can be dialled; give --advertise HOST:PORT"
        )
    _host(given.superlink, "--superlink")
    tls = _tls(given.cert, given.key, given.ca)
    if tls is None and not given.insecure and not _is_loopback(host):
        raise ConfigError(
            f"--bind {given.bind} is beyond loopback, so the daemon needs --cert, --key and --ca "
            "(`regionfed certs` makes them), or --insecure on a network that you trust"
        )
    if not given.keep.isdigit() or int(given.keep) < 1:
        raise ConfigError(f"--keep {given.keep} is not a number of jobs; at least 1 is needed")
    return DaemonOptions(
        region=given.region,
        bind=given.bind,
        advertise=advertise,
        state_dir=Path(given.state_dir),
        superlink=given.superlink,
        superlink_ca=Path(given.superlink_ca) if given.superlink_ca else None,
        tls=tls,
        keep=int(given.keep),
    )


def _host(address: str, flag: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{flag} {address} is not HOST:PORT")
    return host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(certificate: str, key: str, ca: str) -> ServerTls | None:
    if not (certificate or key or ca):
        return None
    given = {"--cert": certificate, "--key": key, "--ca": ca}
    missing = [flag for flag, value in given.items() if not value]
    if missing:
        raise ConfigError(f"mutual TLS also needs {', '.join(missing)}")
    return ServerTls(certificate=Path(certificate), key=Path(key), ca=Path(ca))
