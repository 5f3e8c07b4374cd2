"""Start-up of a role: wait until it can work, say why it cannot, then become the process.

A container that cannot work yet (a peer is still starting, a key is not registered, a name does not
resolve) does not crash and restart: it stays, names the reason in its log and in its health check,
looks again every few seconds, and ends with the documented exit code at the deadline.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from regionfed.checks.address import Address, check_resolves
from regionfed.checks.result import CheckResult, error_of
from regionfed.checks.steps import peer_checks, static_checks
from regionfed.checks.target import Target
from regionfed.deploy.commands import Launch
from regionfed.deploy.health import PROBLEM_FILE
from regionfed.deploy.settings import Settings
from regionfed.errors import ConfigError
from regionfed.logs import wants_json

logger = logging.getLogger("regionfed.start")

LOOK_AGAIN_SECONDS = 3.0
REPEAT_SECONDS = 60.0
FLOWER_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


def bind_to_addresses(settings: Settings) -> Settings:
    """Settings whose bind addresses are IP addresses.

    A name to bind (in Compose: one that only the tier's own network knows) is resolved here, so
    that a process on two networks listens on one of them. Raises `ConfigError` if it does not
    resolve.
    """
    return dataclasses.replace(
        settings,
        bind_fleet=_numeric(settings.bind_fleet, "REGIONFED_BIND_FLEET"),
        bind_runtime=_numeric(settings.bind_runtime, "REGIONFED_BIND_RUNTIME"),
        bind_bridge=_numeric(settings.bind_bridge, "REGIONFED_BIND_BRIDGE"),
    )


def await_ready(
    target: Target,
    *,
    deadline: float,
    look: Callable[[Target], Iterator[CheckResult]] | None = None,
    problem_file: Path = PROBLEM_FILE,
) -> None:
    """Return when no start-up check fails; `deadline` in seconds.

    Raises the error of the last failed check at the deadline (`regionfed.checks.result.error_of`).
    """
    end = time.monotonic() + deadline
    said, said_at = "", 0.0
    while True:
        problem = next((found for found in (look or start_checks)(target) if found.failed), None)
        if problem is None:
            problem_file.unlink(missing_ok=True)
            return
        error = error_of(problem)
        if time.monotonic() >= end:
            raise error
        if str(error) != said or time.monotonic() - said_at >= REPEAT_SECONDS:
            said, said_at = str(error), time.monotonic()
            logger.error("cannot start yet: %s", said)
            problem_file.write_text(said)
        time.sleep(LOOK_AGAIN_SECONDS)


def start_checks(target: Target) -> Iterator[CheckResult]:
    """What is checked at every start: own files and ports, then each peer."""
    yield from static_checks(target)
    for peer in target.peers:
        yield from peer_checks(peer)


def become(launch: Launch, settings: Settings) -> NoReturn:
    """Start what runs beside it (metrics, the ServerApp's log); become the command.

    Temporary files go to the state folder: `/tmp` is memory.
    """
    flower_home, temporary = settings.state / "flwr", settings.state / "tmp"
    for folder in (flower_home, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **FLOWER_ENVIRONMENT,
        "FLWR_HOME": str(flower_home),
        "REGIONFED_IDENTITY": str(settings.identity),
        "TMPDIR": str(temporary),
        **launch.environment,
    }
    if settings.metrics is not None:
        exporter = [sys.executable, "-m", "regionfed.deploy.exporter", launch.target.role]
        subprocess.Popen(_logged(exporter, environment), env=environment)
    if launch.target.role == "superexec":
        applog = [sys.executable, "-m", "regionfed.deploy.applog"]
        subprocess.Popen(_logged(applog, environment), env=environment)
    logger.info("starting %s", " ".join(launch.argv))
    command = _logged(launch.argv, environment)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise ConfigError(
            f"{launch.argv[0]} cannot be started ({error.strerror}); it is not in this image or "
            "environment: install regionfed with its Flower dependency"
        ) from error


def _logged(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command, within what makes its output structured where that is asked for."""
    around = [sys.executable, "-m", "regionfed.logs"] if wants_json(environment) else []
    return [*around, *command]


def _numeric(address: Address, name: str) -> Address:
    resolved = check_resolves(address, what=name)
    if resolved.failed:
        raise error_of(resolved)
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return Address(str(found[0][4][0]), address.port)
