"""What is left of a local federation, seen from any process of this machine."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import psutil

from regionfed.launch.plan import FederationPlan
from regionfed.launch.supervisor import task_of
from regionfed.launch.watchdog import marked_processes
from regionfed.run.files import write_atomically

NOTE = "federation.json"
"""Where `regionfed up` notes its mark and addresses, below the run's `processes/`."""


def write_note(folder: Path, plan: FederationPlan) -> None:
    """Note how the federation's processes and tiers are found."""
    folder.mkdir(parents=True, exist_ok=True)
    noted = {
        "mark": plan.mark,
        "controls": dict(plan.controls),
        "daemons": dict(plan.daemons),
    }
    write_atomically(folder / NOTE, json.dumps(noted, indent=2).encode())


def running(mark: str) -> dict[str, int]:
    """Name to process id of a federation's live processes; see Supervisor.processes."""
    found: dict[str, int] = {}
    for process, parent in marked_processes(mark):
        with contextlib.suppress(psutil.Error):
            task = task_of(process.cmdline())
            name = f"{parent.removesuffix('/superexec')}/{task}" if task else parent
            found.setdefault(name, process.pid)
    found.pop("", None)
    return found
