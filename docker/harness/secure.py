"""Secure aggregation and a privacy ledger in containers, across `down` and `up` in mid-run.

The region enrols its clients and signs what they are asked for before anyone trains; the
coordinator sees sums only; every release is charged before it leaves, and a restart forgets none.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from harness.engine import ROOT
from harness.render import rendered
from harness.stack import Stack
from harness.table import Drill, Table
from harness.tally import Tally
from harness.watch import Event, Watch

PROJECT = "regionfed-secure"
ROUNDS = 3


def secure_drill(tally: Tally, table: Table, *, pace: float) -> None:
    """Run the federation of `secure.toml` with a cut in round 2, and look at what was charged."""
    with tempfile.TemporaryDirectory() as name:
        stack = Stack(PROJECT, rendered(ROOT / "docker/secure.toml", Path(name)))
        stack.forget()
        try:
            _drill(stack, tally, table, pace)
        finally:
            stack.forget()


def _drill(stack: Stack, tally: Tally, table: Table, pace: float) -> None:
    tally.say("a masked and noised federation starts")
    stack.compose("up", "-d", deadline=900)
    watch = Watch(PROJECT)
    try:
        watch.phase(2, "train", deadline=900 * pace)
        before = _charges(watch)
        tally.check("round 1 was charged before it ended", bool(before), before)
        stack.compose("down", "-t", "5", deadline=300)
        stack.compose("up", "-d", deadline=900)
        began = time.monotonic()
        watch.until("the result is there", lambda: bool(watch.result()), deadline=1500 * pace)
        seconds = time.monotonic() - began
        result, after = watch.result(), _charges(watch)
        tally.check("the run ends with its result", result["status"] == "ok", result.get("reason"))
        tally.check(
            "sums were masked", result["privacy"]["secure_aggregation"] is True, result["privacy"]
        )
        entries = [each["entry"] for each in after]
        spent = [each["epsilon"] for each in after]
        kept = after[: len(before)] == before
        tally.check(
            "case 2: the ledger goes on where it was, and never goes back",
            kept and entries == sorted(entries) and spent == sorted(spent),
            (before, after),
        )
        table.add(
            Drill(
                "2",
                "down and up of a masked, noised federation",
                "train",
                f"{len(after)} charges, epsilon {spent[-1]:.2f}, none lost",
                None,
                seconds,
            )
        )
    finally:
        watch.close()


def _charges(watch: Watch) -> list[Event]:
    records = watch.metrics()
    return [each for each in records if each["kind"] == "privacy"]
