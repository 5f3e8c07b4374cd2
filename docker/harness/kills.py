"""kill -9 of every kind of service in mid-round: nothing is lost, and the model stays the same.

One federation, one victim a round. Noise is off and all clients take part (the quorum is all of
them), so the final model has to be that of an undisturbed run in one process, bit for bit.
"""

from __future__ import annotations

import time

from harness.engine import ROOT
from harness.stack import Stack, docker, wait_until
from harness.table import Drill, Table
from harness.tally import Tally
from harness.undisturbed import undisturbed
from harness.watch import Watch

VICTIMS = (
    "north-c00",
    "north-superlink",
    "north-superexec",
    "north-coordinator",
    "north-uplink",
    "global-superlink",
    "global-superexec",
    "run",
)
BY_HAND = ("run",)
"""What its container does not start again by itself, because it ends with the run."""
PHASES = {"train": ("train", 3.0), "aggregate": ("trained", 0.0), "evaluate": ("evaluate", 3.0)}
"""The event that begins a phase, and how many seconds later the blow falls. In `aggregate` the first
region's release has just arrived; what follows (the other's, the step, the checkpoint, the end of
one exchange and the beginning of the next) takes a second or two."""


def kill_drills(
    stack: Stack,
    tally: Tally,
    table: Table,
    *,
    phases: list[str],
    victims: list[str],
    pace: float,
) -> None:
    """Kill each victim once in each phase, a round each; then compare the final model."""
    blows = [(phase, victim) for phase in phases for victim in victims]
    rounds = len(blows) + 2
    stack.environment |= _settings(rounds, pace)
    tally.say(f"{rounds} rounds, a blow in all but the first and the last: starting")
    stack.compose("up", "-d", deadline=900)
    watch = Watch(stack.project)
    try:
        watch.phase(1, "train", deadline=600 * pace)
        quiet = watch.phase(2, "train", deadline=600 * pace)
        tally.say(f"undisturbed, the first round takes {quiet:.0f} s")
        table.add(Drill("", "nothing", "a whole round", "", None, quiet))
        for number, (phase, victim) in enumerate(blows, start=2):
            _blow(stack, tally, table, watch, victim=victim, phase=phase, number=number, pace=pace)
        _verdict(stack, tally, watch, rounds=rounds, pace=pace)
    finally:
        watch.close()


def _settings(rounds: int, pace: float) -> dict[str, str]:
    return {
        "REGIONFED_DRILL_ROUNDS": str(rounds),
        "REGIONFED_DRILL_QUORUM": "2",
        "REGIONFED_DRILL_REGION_SECONDS": str(int(240 * pace)),
        "REGIONFED_DRILL_SERVER_SECONDS": str(int(420 * pace)),
    }


def _blow(
    stack: Stack,
    tally: Tally,
    table: Table,
    watch: Watch,
    *,
    victim: str,
    phase: str,
    number: int,
    pace: float,
) -> None:
    event, later = PHASES[phase]
    watch.phase(number, event, deadline=600 * pace)
    time.sleep(later)
    started = stack.inspect(victim)["State"]["StartedAt"]
    kill(stack, victim)
    struck = time.monotonic()
    if victim in BY_HAND:
        stack.compose("up", "-d", "--no-deps", victim, deadline=300)

    def back() -> bool:
        state = stack.inspect(victim)["State"]
        well = stack.healthy(victim) if "Health" in state else state["Running"]
        return state["StartedAt"] != started and well

    healthy = wait_until(f"{victim} is healthy again", back, deadline=300 * pace)
    # The record of a round is written before its evaluation; the next round begins after it.
    watch.phase(number + 1, "train", deadline=900 * pace)
    round_s = time.monotonic() - struck
    record = watch.rounds()[number]
    scored = watch.scored(number)
    whole = sorted(record["answered"]) == sorted(scored) == ["north", "south"]
    whole = whole and not record["left_out"]
    happened = "all regions and clients counted" if whole else _losses(record, scored)
    cases = "5, 6, 25" if victim.endswith("-c00") else "5, 25"
    table.add(Drill(cases, f"kill -9 {victim}", phase, happened, healthy, round_s))
    tally.check(
        f"case 5: kill -9 {victim} in '{phase}' of round {number}: healthy after {healthy:.0f} s, "
        f"round done after {round_s:.0f} s",
        whole,
        happened,
    )


def kill(stack: Stack, service: str) -> None:
    """SIGKILL to every process of a service's container; its init ends and it is restarted."""
    docker("exec", stack.container(service), "sh", "-c", "kill -9 -1", check=False)


def _losses(record: dict[str, object], scored: set[str]) -> str:
    told = f"skipped {record['skipped']}, left out {record['left_out']}"
    return f"{told}, scores of {', '.join(sorted(scored)) or 'nobody'}"


def _verdict(stack: Stack, tally: Tally, watch: Watch, *, rounds: int, pace: float) -> None:
    watch.until("the result is there", lambda: bool(watch.result()), deadline=300 * pace)
    result = watch.result()
    tally.check("the run ends well", result["status"] == "ok", result.get("reason"))
    undisturbed(stack, ROOT / "docker/drill.toml", RUN__ROUNDS=str(rounds), COORDINATOR__QUORUM="2")
    ours = watch.manifest(rounds).get("sha256", "no checkpoint")
    theirs = watch.manifest(rounds, folder="undisturbed").get("sha256", "none either")
    tally.check(
        "case 25: after all blows the model is that of an undisturbed run, bit for bit",
        ours == theirs,
        (ours, theirs),
    )
