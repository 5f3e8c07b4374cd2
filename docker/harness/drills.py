"""`docker/drills`: what dies, is cut off, hangs or fills up in a federation of containers.

Each drill prints what was done, what happened, and the seconds until it was over; all of them are
written to a table. Times depend on the machine: `--pace 3` triples every deadline on a slow one.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from harness.cuts import Cuts
from harness.engine import ROOT, build_images, ensure_engine
from harness.join import join_drill
from harness.kills import VICTIMS, kill_drills
from harness.secure import secure_drill
from harness.stack import Stack
from harness.table import Table
from harness.tally import Abort, Tally

GROUPS = ("kills", "cuts", "join", "secure")
FILES = (ROOT / "docker-compose.yml", ROOT / "docker/drill.compose.yml")
DISK = ROOT / "docker/drill.disk.yml"


def main() -> int:
    """Run the groups that are asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="docker/drills", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="default: all")
    parser.add_argument("--phases", default="train,evaluate", help="phases in which kills fall")
    parser.add_argument("--victims", default=",".join(VICTIMS), help="services that are killed")
    parser.add_argument("--pace", type=float, default=1.0, help="factor on every deadline")
    parser.add_argument("--no-build", action="store_true", help="use the images as they are")
    parser.add_argument("--out", type=Path, default=Path("drills.json"), help="measured numbers")
    given = parser.parse_args()
    tally, table = Tally(), Table(given.out)
    ensure_engine()
    if not given.no_build:
        build_images()
    unknown = set(given.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    for group in given.groups or GROUPS:
        files = (*FILES, DISK) if group == "cuts" else FILES
        stack = Stack(f"regionfed-{group}", *files)
        stack.forget()
        try:
            if group == "kills":
                phases, victims = given.phases.split(","), given.victims.split(",")
                kill_drills(stack, tally, table, phases=phases, victims=victims, pace=given.pace)
            elif group == "cuts":
                Cuts(stack, tally, table, pace=given.pace).run()
            elif group == "join":
                join_drill(tally, table, pace=given.pace)
            else:
                secure_drill(tally, table, pace=given.pace)
        except (Abort, subprocess.TimeoutExpired) as error:
            tally.check(f"the group '{group}' came to its end", False, error)
            for service in ("run", "north-coordinator", "north-superexec"):
                print(f"--- {service}", stack.logs(service)[-1500:])
        finally:
            stack.forget()
    print(table.markdown())
    return tally.close()
