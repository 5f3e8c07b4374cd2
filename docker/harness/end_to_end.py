"""`docker/e2e`: the federation of docker-compose.yml, from a clean engine to its result.

Builds the images, starts everything, takes it all down in round 2, starts it again, and checks
what came of it: the same run goes on, with the same nodes, to a result and a report. Meanwhile: who
reaches which port, who runs as what, and who is refused.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.engine import ROOT, build_images, ensure_engine
from harness.isolation import check_confinement, check_isolation
from harness.refusals import check_refusals
from harness.stack import UID, Stack, wait_until
from harness.tally import Abort, Tally
from harness.undisturbed import undisturbed

FIRST_ROUND_SECONDS = 900.0
RESULT_SECONDS = 1500.0
SECOND_ROUND = "round 2/"
PEAK = "cat /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes 2>/dev/null"
UP = ("up", "--exit-code-from", "run", "run")


def main() -> int:
    """Run the whole test; the exit status."""
    parser = argparse.ArgumentParser(prog="docker/e2e", description=__doc__)
    parser.add_argument("--project", default="regionfed-e2e", help="name of the Compose project")
    parser.add_argument("--no-build", action="store_true", help="use the images as they are")
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end")
    given = parser.parse_args()
    tally = Tally()
    stack = Stack(given.project, environment={"REGIONFED_LOG": "json"})
    ensure_engine()
    if not given.no_build:
        tally.say("building the images")
        build_images()
    stack.forget()
    try:
        with tempfile.TemporaryDirectory() as folder:
            _scenario(stack, tally, Path(folder))
    except (Abort, subprocess.TimeoutExpired) as error:
        tally.check("the test came to its end", False, error)
        print(stack.logs("run")[-2000:])
    finally:
        if not given.keep:
            stack.forget()
    return tally.close()


def _scenario(stack: Stack, tally: Tally, folder: Path) -> None:
    cut = _cut_in_round_2(stack, tally, folder / "first.log")
    _resume(stack, tally, folder / "second.log", cut)
    _results(stack, tally)
    _identical(stack, tally)
    _memory(stack, tally)
    check_confinement(stack, tally, uid=UID)
    check_isolation(stack, tally, client="north-c00", region="north")
    _transport(stack, tally)
    _logs(stack, tally)
    check_refusals(stack, tally, region="north", client="c00", other="c01")
    _again(stack, tally)


def _cut_in_round_2(stack: Stack, tally: Tally, log: Path) -> dict[str, Any]:
    """Start, and take everything down as soon as round 2 is under way; what there was then."""
    tally.say("docker compose up")
    up = stack.begin(*UP, log=log)

    def under_way() -> bool:
        if up.poll() is not None:
            raise Abort(f"`up` ended early with {up.returncode}: {log.read_text()[-3000:]}")
        return SECOND_ROUND in log.read_text()

    seconds = wait_until("round 2 begins", under_way, deadline=FIRST_ROUND_SECONDS)
    tally.check(f"from nothing to the second round in {seconds:.0f} s", True)
    before = {
        "run": stack.manifest(1)["meta"]["run"],
        "nodes": {tier: stack.nodes(tier) for tier in ("global", "north", "south")},
        "events": len(stack.lines("progress.jsonl")),
    }
    tally.say("docker compose down")
    stack.compose("down", deadline=300)
    up.wait(timeout=120)
    tally.check("`down` leaves no container", not stack.services(), stack.services())
    return before


def _resume(stack: Stack, tally: Tally, log: Path, before: dict[str, Any]) -> None:
    tally.say("docker compose up, again")
    began = time.monotonic()
    up = stack.begin(*UP, log=log)
    try:
        code = up.wait(timeout=RESULT_SECONDS)
    except subprocess.TimeoutExpired:
        up.terminate()
        raise Abort(f"no result within {RESULT_SECONDS:g} s: {log.read_text()[-3000:]}") from None
    tally.say(f"`up` ended after {time.monotonic() - began:.0f} s")
    print(log.read_text()[-2500:])
    tally.check("`docker compose up` exits with 0", code == 0, f"exit {code}")
    events = stack.lines("progress.jsonl")[before["events"] :]
    rounds = sorted({event["round"] for event in events if event["phase"] == "train"})
    tally.check("case 2: `up` goes on in round 2", rounds[:1] == [2], rounds)
    last = stack.manifest(3)
    run = last["meta"]["run"] if last else "no checkpoint of round 3"
    tally.check("case 2: it is the same run", run == before["run"], (run, before["run"]))
    nodes = {tier: stack.nodes(tier) for tier in before["nodes"]}
    tally.check("case 2: the nodes are the same", nodes == before["nodes"], (nodes, before))


def _results(stack: Stack, tally: Tally) -> None:
    result = json.loads(stack.read("run/result.json") or "{}")
    done = result.get("rounds_done")
    tally.check(
        "result.json says that all three rounds are done",
        result.get("status") == "ok" and done == 3,
        (result.get("status"), result.get("reason"), done),
    )
    masked = result.get("privacy", {}).get("secure_aggregation")
    tally.check("the sums of both regions were masked", masked is True, result.get("privacy"))
    levels = result.get("levels", {})
    scored = {name for level in levels.values() for name in level["regions"]}
    tally.check("result.json has the scores of both regions", scored == {"north", "south"}, levels)
    report = stack.read("run/report.html")
    tally.check("report.html is in the volume", "<html" in report and len(report) > 10_000)


def _identical(stack: Stack, tally: Tally) -> None:
    """Masks, processes, `down` and `up` have changed no bit of the model."""
    undisturbed(stack, ROOT / "recipes/containers.toml")
    ours = stack.manifest(3).get("sha256", "no checkpoint")
    theirs = stack.manifest(3, folder="undisturbed").get("sha256", "none either")
    tally.check(
        "cases 2 and 25: the model is that of an undisturbed run in one process, bit for bit",
        ours == theirs,
        (ours, theirs),
    )


def _memory(stack: Stack, tally: Tally) -> None:
    """The largest memory that each container has used, and that none was killed for it."""
    peaks = {}
    for service in stack.services():
        found = stack.compose("exec", "-T", service, "sh", "-c", PEAK, check=False).stdout.split()
        peaks[service] = int(found[0]) / 2**20 if found else 0.0
    largest = sorted(peaks, key=lambda service: -peaks[service])[:4]
    told = ", ".join(f"{service} {peaks[service]:.0f} MiB" for service in largest)
    tally.say(f"memory at its peak: {sum(peaks.values()):.0f} MiB in all; {told}")
    killed = [s for s in peaks if stack.inspect(s)["State"]["OOMKilled"]]
    tally.check("no container ran out of memory", not killed, killed)


def _transport(stack: Stack, tally: Tally) -> None:
    """TLS and node authentication are on, as the processes themselves see it."""
    for service, role in (("north-c00", "client"), ("north-uplink", "uplink")):
        done = stack.compose(
            *("exec", "-T", service, "regionfed", "check"),
            *("--role", role, "--running", "--json"),
            check=False,
        )
        found = json.loads(done.stdout or "[]")
        tally.check(
            f"`regionfed check` in {service}: TLS, key and clock are right",
            done.returncode == 0 and any(each["check"] == "node key and clock" for each in found),
            done.stdout + done.stderr,
        )
    command = stack.inspect("global-superlink")
    arguments = " ".join(command["Config"]["Cmd"] or [])
    process = stack.python(
        "global-superlink",
        "import psutil; print([p.cmdline() for p in psutil.process_iter()])",
    )
    tally.check(
        "node authentication is on",
        "--enable-supernode-auth" in process and "--insecure" not in process,
        arguments + process,
    )


def _logs(stack: Stack, tally: Tally) -> None:
    """Every line of every process, also of those that have ended, is an object that says who speaks."""
    services = stack.compose("ps", "--all", "--services").stdout.split()
    written = {
        service: [line for line in stack.logs(service).splitlines() if line.strip()]
        for service in services
    }
    wrong = {
        service: [line for line in lines if not _is_entry(line)][:2]
        for service, lines in written.items()
    }
    wrong = {service: lines for service, lines in wrong.items() if lines}
    count = sum(map(len, written.values()))
    tally.check(
        f"the logs of {len(services)} containers are JSON ({count} lines)", not wrong, wrong
    )
    silent = sorted(service for service, lines in written.items() if not lines)
    tally.check("every container has said something", not silent, silent)


def _is_entry(line: str) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and {"time", "level", "tier", "message"} <= entry.keys()


def _again(stack: Stack, tally: Tally) -> None:
    """A run that has its result is not run again."""
    before = stack.read("run/result.json")
    done = stack.compose("run", "--rm", "--no-deps", "-T", "run", deadline=120, check=False)
    tally.check(
        "`run` of a finished run shows its result and exits with 0",
        done.returncode == 0 and "ended: ok, 3 of 3 rounds" in done.stdout + done.stderr,
        done.stdout + done.stderr,
    )
    tally.check("the finished result is left as it is", stack.read("run/result.json") == before)
