"""The supervisor with small stand-in processes: readiness, restarts, no orphans (cases 4, 5, 7)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from regionfed.errors import RunFailed, TransportError
from regionfed.launch.plan import ProcessSpec
from regionfed.launch.ports import Ports
from regionfed.launch.supervisor import RESTARTS, Supervisor
from regionfed.launch.watchdog import MARK, NAME, marked_processes

LISTEN = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(600)
"""
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""


@pytest.fixture
def mark() -> Iterator[str]:
    made = uuid.uuid4().hex
    yield made
    for process, _ in marked_processes(made):
        process.kill()


def spec(
    tmp_path: Path, mark: str, name: str, code: str, *, stage: int = 0, probe: str = ""
) -> ProcessSpec:
    flat = name.replace("/", "-")
    return ProcessSpec(
        name=name,
        command=(sys.executable, "-c", textwrap.dedent(code), probe.rpartition(":")[2]),
        environment={**os.environ, MARK: mark, NAME: name},
        folder=tmp_path / flat,
        log=tmp_path / "logs" / f"{flat}.log",
        stage=stage,
        probe=probe,
    )


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 30.0
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def left(mark: str) -> list[psutil.Process]:
    return [process for process, _ in marked_processes(mark)]


def test_it_starts_in_stages_and_stops_grandchildren_too(tmp_path: Path, mark: str) -> None:
    probe = Ports("127.0.0.1", 0).take("a")
    supervisor = Supervisor(
        [
            spec(tmp_path, mark, "a", LISTEN, probe=probe),
            spec(tmp_path, mark, "b", PARENT, stage=1),
        ],
        mark=mark,
        deadline=30.0,
    )
    supervisor.start()
    wait_for(lambda: len(left(mark)) == 3)
    assert set(supervisor.processes()) == {"a", "b"}
    supervisor.stop()
    assert left(mark) == []
    supervisor.stop()


def test_a_process_that_is_killed_is_restarted(tmp_path: Path, mark: str) -> None:
    supervisor = Supervisor(
        [spec(tmp_path, mark, "a", "import time; time.sleep(600)")], mark=mark, deadline=30.0
    )
    supervisor.start()
    first = supervisor.kill("a")
    wait_for(lambda: supervisor.processes().get("a", first) != first)
    supervisor.check()
    with pytest.raises(RunFailed, match=r"no process 'z'.*there are a"):
        supervisor.kill("z")
    supervisor.stop()


def test_a_process_that_keeps_dying_fails_the_federation_with_its_log(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regionfed.launch.supervisor._RESTART_PAUSE_S", 0.01)
    monkeypatch.setattr("regionfed.launch.supervisor._LOOK_S", 0.01)
    supervisor = Supervisor(
        [spec(tmp_path, mark, "a", "print('no key'); raise SystemExit(3)")], mark=mark, deadline=30
    )
    supervisor.start()

    def failed() -> bool:
        try:
            supervisor.check()
        except RunFailed as error:
            return f"died {RESTARTS + 1} times" in str(error) and "no key" in str(error)
        return False

    wait_for(failed)
    supervisor.stop()


def test_a_process_that_ends_before_it_is_ready_is_named_with_its_log(
    tmp_path: Path, mark: str
) -> None:
    probe = Ports("127.0.0.1", 0).take("a")
    supervisor = Supervisor(
        [spec(tmp_path, mark, "a", "print('bad flag'); raise SystemExit(2)", probe=probe)],
        mark=mark,
        deadline=30.0,
    )
    with pytest.raises(RunFailed, match=r"(?s)a ended with exit code 2 before.*bad flag"):
        supervisor.start()
    supervisor.stop()


def test_a_process_that_is_never_ready_is_named_at_the_deadline(tmp_path: Path, mark: str) -> None:
    probe = Ports("127.0.0.1", 0).take("a")
    supervisor = Supervisor(
        [spec(tmp_path, mark, "a", "import time; time.sleep(600)", probe=probe)],
        mark=mark,
        deadline=0.5,
    )
    with pytest.raises(TransportError, match=f"a was not ready at {probe} within 0.5 s"):
        supervisor.start()
    supervisor.stop()
    assert left(mark) == []


def test_kill_9_of_the_supervisor_leaves_no_orphan(tmp_path: Path, mark: str) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                f"""
                import os, sys, time
                from pathlib import Path
                from regionfed.launch.plan import ProcessSpec
                from regionfed.launch.supervisor import Supervisor
                parent = {PARENT!r}
                spec = ProcessSpec(name="a", command=(sys.executable, "-c", parent),
                    environment={{**os.environ, {MARK!r}: {mark!r}, {NAME!r}: "a"}},
                    folder=Path({str(tmp_path)!r}), log=Path({str(tmp_path)!r}) / "a.log", stage=0)
                Supervisor([spec], mark={mark!r}, deadline=30.0).start()
                time.sleep(600)
                """
            ),
        ]
    )
    wait_for(lambda: len(left(mark)) == 2)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_for(lambda: left(mark) == [])
