"""`docker/drills`: what dies, is cut off, hangs or fills up in a federation of containers.

Each drill prints what was done, what happened, and the seconds until it was over; all of them are
written to a table. Times depend on the machine: `--pace 3` triples every deadline on a slow one.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from harness.cuts import Cuts
from harness.engine import ROOT, build_images, ensure_engine
from harness.join import join_drill
from harness.kills import PHASES, VICTIMS, kill_drills
from harness.render import rendered
from harness.secure import secure_drill
from harness.stack import Stack
from harness.table import Table
from harness.tally import Abort, Tally

GROUPS = ("kills", "cuts", "join", "secure")
CONFIG = ROOT / "docker/drill.toml"
OVERRIDES = ROOT / "docker/drill.compose.yml"
DISK = ROOT / "docker/drill.disk.yml"


def main() -> int:
    """Run the groups that are asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="docker/drills", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="default: all")
    parser.add_argument("--phases", default=",".join(PHASES), help="phases in which kills fall")
    parser.add_argument("--victims", default=",".join(VICTIMS), help="services that are killed")
    parser.add_argument("--pace", type=float, default=1.0, help="factor on every deadline")
    parser.add_argument("--no-build", action="store_true", help="use the images as they are")
    parser.add_argument("--out", type=Path, default=Path("drills.json"), help="measured numbers")
    given = parser.parse_args()
    phases, victims = given.phases.split(","), given.victims.split(",")
    for asked, known in ((given.groups, GROUPS), (phases, PHASES), (victims, VICTIMS)):
        if unknown := set(asked) - set(known):
            parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    tally, table = Tally(), Table(given.out)
    ensure_engine()
    if not given.no_build:
        build_images()
    for group in given.groups or GROUPS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                _group(group, Path(folder), tally, table, given)
            except (Abort, subprocess.TimeoutExpired) as error:
                tally.check(f"the group '{group}' came to its end", False, error)
    print(table.markdown())
    return tally.close()


def _group(group: str, folder: Path, tally: Tally, table: Table, given: argparse.Namespace) -> None:
    """One group of drills from nothing to nothing."""
    if group == "join":
        join_drill(tally, table, pace=given.pace)
        return
    if group == "secure":
        secure_drill(tally, table, pace=given.pace)
        return
    files = [rendered(CONFIG, folder), OVERRIDES, *([DISK] if group == "cuts" else [])]
    stack = Stack(f"regionfed-{group}", *files)
    stack.forget()
    try:
        if group == "kills":
            phases, victims = given.phases.split(","), given.victims.split(",")
            kill_drills(stack, tally, table, phases=phases, victims=victims, pace=given.pace)
        else:
            Cuts(stack, tally, table, pace=given.pace).run()
    except (Abort, subprocess.TimeoutExpired):
        for service in ("run", "north-coordinator", "north-superexec", "global-superexec"):
            print(f"--- {service}", stack.logs(service)[-1500:])
        raise
    finally:
        stack.forget()
