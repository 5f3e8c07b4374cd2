"""Follows a run from outside: what its folder says, looked at once a second."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from harness.stack import SERVER_IMAGE, docker
from harness.tally import Abort

Event = dict[str, Any]


class Watch:
    """A container that only mounts the run's volume, so that any tier may be dead meanwhile."""

    def __init__(self, project: str, *, folder: str = "run", volume: str = "") -> None:
        self.name = f"{project}-watch"
        mounted = volume or f"{project}_runs"
        self.folder = folder
        docker("rm", "-f", self.name, check=False)
        docker(
            *("run", "-d", "--name", self.name, "--network", "none", "--init", "--no-healthcheck"),
            *("-v", f"{mounted}:/runs:ro", "--entrypoint", "sleep"),
            *(SERVER_IMAGE, "86400"),
        )

    def events(self) -> list[Event]:
        """The server's progress so far."""
        return self._lines("progress.jsonl")

    def rounds(self) -> dict[int, Event]:
        """The record of each round that is done."""
        return {each["round"]: each for each in self.metrics() if each["kind"] == "round"}

    def scored(self, number: int) -> set[str]:
        """Regions whose scores after round `number` are durable."""
        found = [m for m in self.metrics() if m["kind"] == "evaluate" and m["round"] == number]
        return {region for each in found for region in each["scores"]["regions"]}

    def metrics(self) -> list[Event]:
        """Everything that was measured so far."""
        return self._lines("metrics.jsonl")

    def result(self) -> Event:
        """The run's result; empty while there is none."""
        text = docker("exec", self.name, "cat", self._path("result.json"), check=False)
        return json.loads(text) if text else {}

    def manifest(self, number: int, *, folder: str = "") -> Event:
        """The manifest of the checkpoint of a round; empty if there is none."""
        path = f"/runs/{folder or self.folder}/checkpoints/round-{number:06d}.json"
        text = docker("exec", self.name, "cat", path, check=False)
        return json.loads(text) if text else {}

    def phase(self, number: int, phase: str, *, deadline: float) -> float:
        """Wait until round `number` has come to `phase`, or beyond; seconds waited."""

        def there() -> bool:
            return any(
                event["round"] > number or (event["round"] == number and event["phase"] == phase)
                for event in self.events()
            )

        return self.until(f"round {number} comes to '{phase}'", there, deadline=deadline)

    def done(self, number: int, *, deadline: float) -> float:
        """Wait until the record of round `number` is durable; seconds waited."""
        return self.until(
            f"round {number} is done", lambda: number in self.rounds(), deadline=deadline
        )

    def until(self, what: str, holds: Callable[[], bool], *, deadline: float) -> float:
        """Seconds until `holds`. Raises Abort with the last event at the deadline."""
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > deadline:
                last = self.events()[-1:] or ["nothing"]
                raise Abort(f"{what}: not within {deadline:g} s; the last event: {last[0]}")
            time.sleep(1.0)
        return time.monotonic() - began

    def close(self) -> None:
        """Remove the container."""
        docker("rm", "-f", self.name, check=False)

    def _lines(self, name: str) -> list[Event]:
        text = docker("exec", self.name, "cat", self._path(name), check=False)
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _path(self, name: str) -> str:
        return f"/runs/{self.folder}/{name}"
