"""Starts processes in stages, restarts those that die, and leaves none behind."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from regionfed.errors import RegionFedError, RunFailed, TransportError
from regionfed.launch import watchdog
from regionfed.launch.plan import ProcessSpec
from regionfed.launch.ready import listens, serves
from regionfed.launch.watchdog import end_all, marked_processes

logger = logging.getLogger(__name__)

RESTARTS = 5
"""Restarts of one process within `RESTART_SPAN_S` before the federation is given up."""
RESTART_SPAN_S = 600.0
_LOOK_S = 0.2
_RESTART_PAUSE_S = 1.0
_TASKS = {"flwr-serverapp": "serverapp", "flwr-clientapp": "clientapp"}
_LOG_TAIL = 8


@dataclass
class _Watched:
    spec: ProcessSpec
    process: subprocess.Popen[bytes] | None = None
    deaths: deque[float] = field(default_factory=deque)
    restart_at: float = 0.0
    lost: bool = False


class Supervisor:
    """Owns the processes of one federation.

    Args:
        specs: what to run.
        mark: the federation's mark, carried by all its processes.
        deadline: seconds for a stage to become ready.
    """

    def __init__(self, specs: Sequence[ProcessSpec], *, mark: str, deadline: float) -> None:
        self._watched = {spec.name: _Watched(spec) for spec in specs}
        self._mark = mark
        self._deadline = deadline
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._failure: RegionFedError | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start stage by stage, all of a stage at once.

        Raises TransportError naming the process that was not ready in time, RunFailed naming one
        that ended, each with the last lines of its log.
        """
        # A session of its own: neither Ctrl-C nor the supervisor's group takes it along.
        self._watchdog = subprocess.Popen(
            [sys.executable, "-P", watchdog.__file__, self._mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for stage in sorted({watched.spec.stage for watched in self._watched.values()}):
            members = [w for w in self._watched.values() if w.spec.stage == stage]
            began = time.monotonic()
            for watched in members:
                self._launch(watched)
            self._await(members, end=began + self._deadline)
            logger.info("stage %d ready after %.1f s", stage, time.monotonic() - began)
        self._thread.start()

    def check(self) -> None:
        """Raise what ended the federation: a process that kept dying."""
        if self._failure is not None:
            raise self._failure

    def processes(self) -> dict[str, int]:
        """Name to process id, of supervised processes and of the apps at work below them.

        Apps are named after their parent's tier: `global/serverapp`, `REGION/serverapp`,
        `REGION/uplink/clientapp`, `REGION/CLIENT/clientapp`.
        """
        with self._lock:
            found = {
                name: watched.process.pid
                for name, watched in self._watched.items()
                if watched.process is not None and watched.process.poll() is None
            }
        for process, parent in marked_processes(self._mark):
            task = task_of(process.cmdline())
            if task and parent:
                found[f"{parent.removesuffix('/superexec')}/{task}"] = process.pid
        return found

    def kill(self, name: str, *, for_good: bool = False) -> int:
        """Send SIGKILL to one process and return its id; `for_good`: it is not restarted.

        Raises RunFailed when it is not there.
        """
        pids = self.processes()
        if name not in pids:
            raise RunFailed(f"no process {name!r} is running; there are {', '.join(sorted(pids))}")
        if for_good:
            with self._lock:
                self._watched[name].lost = True
        os.kill(pids[name], 9)
        return pids[name]

    def stop(self) -> None:
        """End all processes: asked first, then killed. Safe to call twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        end_all(self._mark)
        for watched in self._watched.values():
            if watched.process is not None:
                watched.process.wait()
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
            self._watchdog.wait()

    def _launch(self, watched: _Watched) -> None:
        spec = watched.spec
        spec.folder.mkdir(parents=True, exist_ok=True)
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        with open(spec.log, "ab") as log:
            try:
                watched.process = subprocess.Popen(
                    spec.command,
                    env=dict(spec.environment),
                    cwd=spec.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise RunFailed(
                    f"cannot start {spec.name} ({spec.command[0]}): {error.strerror}"
                ) from error

    def _await(self, members: Sequence[_Watched], *, end: float) -> None:
        waiting = [watched for watched in members if watched.spec.probe]
        while waiting:
            for watched in members:
                code = None if watched.process is None else watched.process.poll()
                if code is not None:
                    raise RunFailed(
                        f"{watched.spec.name} ended with {_shown(code)} before it was ready"
                        f"{_tail(watched.spec)}"
                    )
            waiting = [watched for watched in waiting if not _is_ready(watched.spec)]
            if waiting and time.monotonic() >= end:
                late = waiting[0].spec
                raise TransportError(
                    f"{late.name} was not ready at {late.probe} within {self._deadline:g} s; raise "
                    f"network.start_deadline on a slow machine{_tail(late)}"
                )
            if waiting:
                time.sleep(_LOOK_S)

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            try:
                with self._lock:
                    for watched in self._watched.values():
                        self._revive(watched)
            except RegionFedError as error:
                self._failure = error
                return

    def _revive(self, watched: _Watched) -> None:
        """Restart a dead process after a pause, unless it has died too often."""
        now = time.monotonic()
        if watched.lost:
            return
        if watched.restart_at:
            if now >= watched.restart_at:
                watched.restart_at = 0.0
                self._launch(watched)
            return
        code = None if watched.process is None else watched.process.poll()
        if code is None:
            return
        watched.deaths.append(now)
        while watched.deaths[0] < now - RESTART_SPAN_S:
            watched.deaths.popleft()
        if len(watched.deaths) > RESTARTS:
            raise RunFailed(
                f"{watched.spec.name} died {len(watched.deaths)} times within "
                f"{RESTART_SPAN_S / 60:g} minutes, the last time with {_shown(code)}"
                f"{_tail(watched.spec)}"
            )
        logger.warning("%s ended with %s; it is restarted", watched.spec.name, _shown(code))
        watched.restart_at = now + _RESTART_PAUSE_S


def _is_ready(spec: ProcessSpec) -> bool:
    return serves(spec.probe) if spec.health else listens(spec.probe)


def task_of(command: Sequence[str]) -> str:
    """Which Flower app a command line runs: serverapp, clientapp, or none."""
    for part in command[:2]:
        task = _TASKS.get(os.path.basename(part))
        if task:
            return task
    return ""


def _shown(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _tail(spec: ProcessSpec) -> str:
    """The end of a process's log, to be put behind a sentence."""
    lines = spec.log.read_text(errors="replace").splitlines() if spec.log.exists() else []
    kept = [line for line in lines if line.strip()][-_LOG_TAIL:]
    shown = "".join(f"\n    {line}" for line in kept)
    return f". End of {spec.log}:{shown}" if kept else f" ({spec.log} is empty)"
