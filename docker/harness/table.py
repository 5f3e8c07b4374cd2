"""The table of what the drills measured."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Drill:
    """One drill: what was done to whom, when, what happened, and seconds until it was over.

    `service_s` is until the container was healthy again, `round_s` until the round in flight was
    done; None where that has no meaning.
    """

    case: str
    done: str
    phase: str
    happened: str
    service_s: float | None
    round_s: float | None


class Table:
    """Keeps every drill at once in a JSON file, so that a run that is cut short loses none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.drills: list[Drill] = []

    def add(self, drill: Drill) -> None:
        """Note a drill."""
        self.drills.append(drill)
        facts = {
            "processors": os.cpu_count(),
            "load": [round(each, 1) for each in os.getloadavg()],
            "drills": [dataclasses.asdict(each) for each in self.drills],
        }
        self.path.write_text(json.dumps(facts, indent=2) + "\n")

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [
            "| cases | done | in phase | what happened | healthy after | round done after |",
            "|---|---|---|---|---|---|",
        ]
        for each in self.drills:
            cells = (each.case, each.done, each.phase, each.happened)
            times = (_seconds(each.service_s), _seconds(each.round_s))
            lines.append(f"| {' | '.join((*cells, *times))} |")
        return "\n".join(lines) + "\n"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s"
