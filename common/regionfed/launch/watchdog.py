"""Ends a federation whose supervisor is gone, however it went.

Started by the supervisor in a session of its own, with a pipe as standard input. The pipe ends
when the supervisor does, by `kill -9` too; then every process that carries the federation's mark
in its environment is ended. It runs as a script and imports nothing of the project, so that it
stays small.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import psutil

MARK = "REGIONFED_UP"
"""Environment variable that all processes of one federation share, down to their children."""
NAME = "REGIONFED_PROCESS"
"""Environment variable with the name of the supervised process."""
GRACE_S = 5.0


def marked_processes(mark: str) -> Iterator[tuple[psutil.Process, str]]:
    """Every live process of one federation but this one, with the name of its supervised parent."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            environment = process.environ()
            if environment.get(MARK) == mark:
                yield process, environment.get(NAME, "")


def end_all(mark: str, *, grace: float = GRACE_S) -> int:
    """End all processes of a federation: asked first, then killed. Return how many there were."""
    found = [process for process, _ in marked_processes(mark)]
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(found, timeout=grace)
    # Children may have been started meanwhile.
    for process in [*alive, *(late for late, _ in marked_processes(mark))]:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=grace)
    return len(found)


def main() -> None:
    """Wait for the supervisor's end, then clean up."""
    mark = sys.argv[1]
    sys.stdin.read()
    end_all(mark)


if __name__ == "__main__":
    main()
