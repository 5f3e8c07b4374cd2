"""Networks that are cut, clients that hang, a global tier that goes away, and a disk that is full.

One federation. Here the quorum is one client and one region, so what is missing is left out by
name and comes back by itself; the loss is the round in flight.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from harness.kills import kill
from harness.stack import SERVER_IMAGE, Stack, docker, wait_until
from harness.table import Drill, Table
from harness.tally import Abort, Tally
from harness.watch import Event, Watch

REGION = "north"
STATUS_DEAD = 13
"""Exit code of `regionfed status` for a run that is dead (docs/exit-codes.md)."""
NO_SPACE = "No space left"
FILL = """
with open('/state/ballast', 'wb') as file:
    block = b'x' * 65536
    try:
        while True:
            file.write(block); file.flush()
    except OSError as error:
        print(error.strerror)
"""


class Cuts:
    """The drills of one federation, in the order in which they are called."""

    def __init__(self, stack: Stack, tally: Tally, table: Table, *, pace: float) -> None:
        self.stack, self.tally, self.table, self.pace = stack, tally, table, pace
        self.region_seconds, self.server_seconds = int(45 * pace), int(70 * pace)
        stack.environment |= {
            "REGIONFED_DRILL_ROUNDS": "60",
            "REGIONFED_DRILL_QUORUM": "1",
            "REGIONFED_DRILL_REGION_SECONDS": str(self.region_seconds),
            "REGIONFED_DRILL_SERVER_SECONDS": str(self.server_seconds),
        }

    def run(self) -> None:
        """Start, and do all of them."""
        self.tally.say("starting the federation for cuts, pauses and a full disk")
        self.stack.compose("up", "-d", deadline=900)
        self.watch = Watch(self.stack.project)
        holder = f"{self.stack.project}-holder"
        # Its volume is memory and would be empty again after a restart of the only one who has it.
        docker("rm", "-f", holder, check=False)
        docker(
            *("run", "-d", "--name", holder, "--network", "none", "--no-healthcheck"),
            *("--entrypoint", "sleep", "-v", f"{self.stack.project}_{REGION}-coordinator:/held:ro"),
            *(SERVER_IMAGE, "86400"),
        )
        try:
            self.watch.done(1, deadline=600 * self.pace)
            for drill in (
                self.pause_client,
                self.below_quorum,
                self.cut_region,
                self.global_down,
                self.dead_run,
                self.full_disk,
            ):
                drill()
        finally:
            self.watch.close()
            docker("rm", "-f", holder, check=False)

    def pause_client(self) -> None:
        """Cases 8 and 17: a client hangs for longer than the deadline; its answer is late."""
        client = f"{REGION}-c00"
        number = self._next("train")
        pause(self.stack, client)
        self.watch.done(number, deadline=(self.server_seconds + 300) * self.pace)
        record = self.watch.rounds()[number]
        late = sorted({each["client"] for each in record["left_out"]})
        docker("unpause", self.stack.container(client))
        began = time.monotonic()
        back = self._await_round(
            "both clients count again",
            lambda r: r["regions"].get(REGION, {}).get("clients") == 2,
            after=number,
        )
        self._note(
            "8, 17",
            f"{client} paused beyond the deadline",
            f"left out of round {number} by name, in round {back} again; its late answer was "
            "dropped",
            began,
            late == ["c00"] and REGION in record["answered"],
            record,
        )

    def below_quorum(self) -> None:
        """Case 16: a region whose clients all hang is skipped by name; the other goes on."""
        clients = [f"south-{name}" for name in ("c00", "c01")]
        number = self._next("train")
        for client in clients:
            pause(self.stack, client)
        self.watch.done(number, deadline=(self.server_seconds + 300) * self.pace)
        record = self.watch.rounds()[number]
        for client in clients:
            docker("unpause", self.stack.container(client))
        began = time.monotonic()
        back = self._await_round("south answers", lambda r: "south" in r["answered"], after=number)
        skipped = {each["region"]: each["reason"] for each in record["skipped"]}
        self._note(
            "16",
            "both clients of south paused",
            f"round {number} without south ({skipped.get('south', '')[:60]}), back in round {back}",
            began,
            record["answered"] == [REGION] and "quorum" in skipped.get("south", ""),
            record,
        )

    def cut_region(self) -> None:
        """Cases 9 and 27: a region loses its way to the global server for longer than a round."""
        network = f"{self.stack.project}_global-fleet"
        uplink = self.stack.container(f"{REGION}-uplink")
        number = self._next("train")
        docker("network", "disconnect", network, uplink)
        self.watch.done(number, deadline=(self.server_seconds + 300) * self.pace)
        record = self.watch.rounds()[number]
        skipped = {each["region"]: each["reason"] for each in record["skipped"]}
        docker("network", "connect", network, uplink)
        began = time.monotonic()
        back = self._await_round(
            f"{REGION} answers", lambda r: REGION in r["answered"], after=number
        )
        self._note(
            "9, 27",
            f"{REGION} cut off for longer than the round's deadline",
            f"round {number} without {REGION} ({skipped.get(REGION, '')[:60]}), back in "
            f"round {back}",
            began,
            record["answered"] == ["south"] and REGION in skipped,
            record,
        )

    def global_down(self) -> None:
        """The whole global tier stops in mid-round and starts again; regions stay up."""
        number = self._next("train")
        services = ("run", "global-superexec", "global-superlink")
        started = self.stack.inspect(f"{REGION}-coordinator")["State"]["StartedAt"]
        run = self.watch.manifest(number - 1)["meta"]["run"]
        self.stack.compose("stop", "-t", "5", *services)
        self.stack.compose("up", "-d", deadline=600)
        began = time.monotonic()
        self.watch.done(number, deadline=900 * self.pace)
        record = self.watch.rounds()[number]
        same = self.watch.manifest(number)["meta"]["run"] == run
        untouched = self.stack.inspect(f"{REGION}-coordinator")["State"]["StartedAt"] == started
        self._note(
            "2, 5",
            "global tier stopped and started in mid-round",
            f"the same run repeats round {number} with {', '.join(record['answered'])}",
            began,
            same and untouched and bool(record["answered"]),
            record,
        )

    def dead_run(self) -> None:
        """Case 35: a run whose ServerApp died and that nobody starts again is shown as dead."""
        number = self._next("train")
        self.stack.compose("stop", "-t", "5", "run")
        kill(self.stack, "global-superexec")
        told: list[tuple[int, str, str]] = []

        def dead() -> bool:
            told.append(self._status())
            return told[-1][:2] == (STATUS_DEAD, "dead")

        named = wait_until("status says that the run is dead", dead, deadline=200 * self.pace)
        reason = told[-1][2]
        began = time.monotonic()
        self.stack.compose("up", "-d", "--no-deps", "run", deadline=300)
        self.watch.done(number, deadline=900 * self.pace)
        after = self._status()
        self._note(
            "35",
            "run stopped and kill -9 global-superexec",
            f"`status` says dead after {named:.0f} s ({reason}); with `run` back round {number} "
            "is repeated",
            began,
            "no live run" in reason and after[:2] == (0, "running"),
            (told[-1], after),
        )

    def _status(self) -> tuple[int, str, str]:
        """Exit code, state and reason of `regionfed status` at the global site."""
        words = ("exec", "-T", "global-superexec", "regionfed", "status", "--json")
        done = self.stack.compose(*words, check=False)
        found = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        return done.returncode, str(found.get("state", "")), str(found.get("reason", ""))

    def full_disk(self) -> None:
        """The coordinator's volume is full: a clear error, nothing damaged, and on it goes."""
        service = f"{REGION}-coordinator"
        self._next("train")
        said = self.stack.compose("exec", "-T", service, "python", "-c", FILL, deadline=120).stdout
        number = max(self.watch.rounds()) + 1
        began = time.monotonic()

        def complaint() -> bool:
            reasons = [
                each["reason"]
                for record in self.watch.rounds().values()
                for each in record["skipped"]
                if each["region"] == REGION
            ]
            logs = [self.stack.logs(f"{REGION}-{name}") for name in ("coordinator", "superexec")]
            told = " ".join((*reasons, *logs))
            return NO_SPACE in told or "disk is full" in told

        named = wait_until("someone names the full disk", complaint, deadline=400 * self.pace)
        self.stack.compose("exec", "-T", service, "rm", "-f", "/state/ballast")
        began = time.monotonic()
        back = self._await_round(
            f"{REGION} answers", lambda r: REGION in r["answered"], after=number
        )
        self._note(
            "26",
            f"the volume of {service} is full",
            f"the full disk is named after {named:.0f} s; with space again {REGION} is in "
            f"round {back}",
            began,
            NO_SPACE in said,
            said,
        )

    def _next(self, phase: str) -> int:
        """Wait for the phase of a round that has not begun yet, and a moment longer."""
        begun = max(event["round"] for event in self.watch.events())
        # The newest round may be in its evaluation already, and beyond the phase that is waited for.
        number = begun + 1
        self.watch.phase(number, phase, deadline=900 * self.pace)
        time.sleep(2.0)
        return number

    def _await_round(self, what: str, holds: Callable[[Event], bool], *, after: int) -> int:
        found: list[int] = []

        def there() -> bool:
            later = {n: r for n, r in self.watch.rounds().items() if n > after}
            found[:] = [n for n, record in later.items() if holds(record)]
            return bool(found)

        self.watch.until(what, there, deadline=900 * self.pace)
        return min(found)

    def _note(
        self, case: str, done: str, happened: str, began: float, holds: bool, detail: object
    ) -> None:
        seconds = time.monotonic() - began
        self.table.add(Drill(case, done, "train", happened, None, seconds))
        self.tally.check(f"case {case}: {done}: {happened}", holds, detail)


def pause(stack: Stack, service: str) -> None:
    """Freeze a service's container; an engine that is busy sometimes needs a second request."""
    for _ in range(2):
        docker("pause", stack.container(service), check=False)
        if stack.inspect(service)["State"]["Paused"]:
            return
    raise Abort(f"{service} cannot be paused")
