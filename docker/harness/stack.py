"""A federation in containers under a Compose project of its own, and what is read of it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.engine import ROOT
from harness.tally import Abort

LOOK_SECONDS = 1.0
UID = "12345"
SERVER_IMAGE = "regionfed-server:0.1.0"


class Stack:
    """One Compose project. Its name keeps it apart from a federation that a user runs here."""

    def __init__(
        self,
        project: str,
        *files: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.project = project
        self.files = files or (ROOT / "docker-compose.yml",)
        self.environment = {**os.environ, "REGIONFED_UID": UID, **(environment or {})}

    def compose(
        self, *words: str, deadline: float = 120.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """`docker compose WORDS` to its end. Raises Abort with its output when it fails."""
        done = subprocess.run(
            [*self._command(), *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
        if check and done.returncode:
            raise Abort(
                f"docker compose {' '.join(words)}: {done.stdout[-800:]}{done.stderr[-1500:]}"
            )
        return done

    def begin(self, *words: str, log: Path) -> subprocess.Popen[str]:
        """`docker compose WORDS` in the background, its output in `log`."""
        with log.open("w") as file:
            return subprocess.Popen(
                [*self._command(), *words],
                cwd=ROOT,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def python(self, service: str, code: str, *, deadline: float = 60.0) -> str:
        """Run Python code in a service's running container; its output."""
        return self.compose("exec", "-T", service, "python", "-c", code, deadline=deadline).stdout

    def container(self, service: str) -> str:
        """Name of a service's container."""
        return f"{self.project}-{service}-1"

    def inspect(self, service: str) -> dict[str, Any]:
        """What the engine knows of a service's container."""
        found: dict[str, Any] = json.loads(docker("inspect", self.container(service)))[0]
        return found

    def healthy(self, service: str) -> bool:
        """Whether the container runs and its health check passes."""
        state = self.inspect(service)["State"]
        return bool(state["Running"]) and state.get("Health", {}).get("Status") == "healthy"

    def services(self) -> list[str]:
        """Services whose containers run."""
        return self.compose("ps", "--services", "--status", "running").stdout.split()

    def read(self, path: str, *, volume: str = "runs") -> str:
        """A file of a volume, read by a container that only mounts it; empty if it is absent."""
        mount = f"{self.project}_{volume}:/volume:ro"
        command = ["docker", "run", "--rm", "--network", "none", "-v", mount, "--entrypoint", "cat"]
        found = subprocess.run(
            [*command, SERVER_IMAGE, f"/volume/{path}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return found.stdout

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The JSON lines of a file of the run's folder."""
        text = self.read(f"run/{name}")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def manifest(self, number: int, *, folder: str = "run") -> dict[str, Any]:
        """The manifest of one global checkpoint; empty if there is none."""
        text = self.read(f"{folder}/checkpoints/round-{number:06d}.json")
        return json.loads(text) if text else {}

    def nodes(self, tier: str) -> dict[str, int]:
        """Node ids by name, as the tier's SuperLink knows them."""
        code = (
            "import json, os; from pathlib import Path; "
            "from regionfed.flower.adapter import Control; "
            "c = Control(os.environ['REGIONFED_RUNTIME'], ca=Path('/identity/ca.crt')); "
            "print(json.dumps({n.name: n.node_id for n in c.nodes()}))"
        )
        service = "global-superexec" if tier == "global" else f"{tier}-coordinator"
        known: dict[str, int] = json.loads(self.python(service, code).splitlines()[-1])
        return known

    def forget(self) -> None:
        """Remove containers, networks and volumes of the project."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "5", deadline=300.0)

    def logs(self, service: str) -> str:
        """Everything that a service's container has written."""
        return output_of(self.container(service))

    def _command(self) -> list[str]:
        files = [word for file in self.files for word in ("-f", str(file))]
        return ["docker", "compose", "-p", self.project, *files, "--progress", "quiet"]


def docker(*words: str, deadline: float = 60.0, check: bool = True) -> str:
    """`docker WORDS` to its end; its output. Raises Abort when it fails."""
    done = subprocess.run(
        ["docker", *words], capture_output=True, text=True, timeout=deadline, check=False
    )
    if check and done.returncode:
        raise Abort(f"docker {' '.join(words)}: {done.stderr[-1500:]}")
    return done.stdout


def output_of(container: str) -> str:
    """What a container has written, on both streams."""
    done = subprocess.run(
        ["docker", "logs", container], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def wait_until(what: str, holds: Callable[[], bool], *, deadline: float) -> float:
    """Seconds until `holds`. Raises Abort naming `what` at the deadline."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > deadline:
            raise Abort(f"{what}: not within {deadline:g} s")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began
