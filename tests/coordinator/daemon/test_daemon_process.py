"""The daemon as a process: health, a clean stop, kill -9 at work (cases 5, 7, 25)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

from regionfed.bridge.api import Job, JobResult
from regionfed.bridge.client import GrpcBridge
from regionfed.launch.ready import serves


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def content(value: float) -> RecordDict:
    return RecordDict({"theta": ArrayRecord({"flat": Array(np.full(4, value, np.float32))})})


@contextmanager
def daemon(folder: Path, bind: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "regionfed_coordinator.daemon.main"),
            *("--region", "north", "--bind", bind, "--state-dir", str(folder)),
            *("--superlink", "127.0.0.1:1"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FLWR_TELEMETRY_ENABLED": "0"},
    )
    try:
        end = time.monotonic() + 60.0
        while not serves(bind):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end, "the daemon is not serving"
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


def test_kill_9_loses_nothing_and_a_stop_is_clean(tmp_path: Path) -> None:
    bind = free_address()
    bridge = GrpcBridge(bind, patience=60.0)
    with daemon(tmp_path, bind) as process:
        bridge.submit(Job("7:1:train", "train", content(1.0)))
        assert bridge.next_job("w1", 5.0, 2) is not None
        bridge.push_result(JobResult("7:1:train", "result", content(2.0)), content(3.0))
        bridge.submit(Job("7:2:train", "train", content(4.0)))
        assert bridge.next_job("w1", 5.0, 2) is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
    with daemon(tmp_path, bind) as process:
        # The worker was at work on job 2 meanwhile; it pushes to the new daemon.
        assert bridge.push_result(JobResult("7:2:train", "result", content(5.0)), content(6.0))
        for job_id, value in (("7:1:train", 2.0), ("7:2:train", 5.0)):
            assert bridge.fetch(job_id, 5.0).content == content(value)
        assert bridge.load_state() == content(6.0)
        assert "127.0.0.1:1 cannot be reached" in bridge.status().run_status
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60.0) == 0
    bridge.close()


def test_a_taken_port_ends_it_with_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "regionfed_coordinator.daemon.main"),
                *("--region", "north", "--bind", bind, "--state-dir", str(tmp_path)),
                *("--superlink", "127.0.0.1:1"),
            ],
            capture_output=True,
            text=True,
            timeout=60.0,
            check=False,
        )
    assert done.returncode == 7
    assert f"cannot listen on {bind}" in done.stderr.splitlines()[-1]
