"""Finished cells as tables: per cell, per region, per system, and system against system."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regionfed.bench.cell import CellResult
from regionfed.bench.statistics import Interval, interval, paired
from regionfed.bench.systems import SYSTEMS
from regionfed.run.files import write_atomically

Measure = Callable[[CellResult], float]

MEASURES: Mapping[str, Measure] = {
    "overall": lambda cell: cell.scores.overall,
    "worst": lambda cell: cell.scores.worst_region.score,
    "spread": lambda cell: cell.scores.spread,
}
"""What cells are compared by, as fractions: overall, worst region (RRS), best minus worst."""


@dataclass(frozen=True)
class Results:
    """All finished cells of a benchmark."""

    cells: Sequence[CellResult]

    @property
    def settings(self) -> list[str]:
        """Settings in the order of the cells."""
        return list(dict.fromkeys(cell.setting for cell in self.cells))

    def systems(self, setting: str) -> list[str]:
        """Systems of a setting in the order of the tables."""
        found = {cell.system for cell in self.cells if cell.setting == setting}
        return [name for name in SYSTEMS if name in found]

    def of(self, setting: str, system: str) -> list[CellResult]:
        """One system's cells, a seed each."""
        return [c for c in self.cells if c.setting == setting and c.system == system]

    def by_seed(self, setting: str, system: str, measure: Measure) -> dict[int, float]:
        """A measure by seed."""
        return {cell.seed: measure(cell) for cell in self.of(setting, system)}

    def summary(self, setting: str, system: str, measure: str = "overall") -> Interval:
        """Mean over seeds of one of `MEASURES`."""
        return interval([MEASURES[measure](cell) for cell in self.of(setting, system)])

    def difference(
        self, setting: str, first: str, second: str, measure: str = "overall"
    ) -> Interval | None:
        """Paired over seeds, first minus second."""
        chosen = MEASURES[measure]
        return paired(self.by_seed(setting, first, chosen), self.by_seed(setting, second, chosen))

    def tasks(self) -> list[str]:
        """Names of all tasks."""
        return list(dict.fromkeys(task for cell in self.cells for task in cell.scores.tasks))

    def best(
        self, setting: str, *, start: str = "regionfed-", measure: str = "overall"
    ) -> str | None:
        """The system of that family with the highest mean; None where there is none."""
        names = [name for name in self.systems(setting) if name.startswith(start)]
        return max(names, key=lambda name: self.summary(setting, name, measure).mean, default=None)


def write_tables(results: Results, folder: Path) -> list[Path]:
    """Write cells.csv, regions.csv, summary.csv and pairs.csv; scores are fractions."""
    tables: dict[str, Iterable[Mapping[str, Any]]] = {
        "cells.csv": _cells(results),
        "regions.csv": _regions(results),
        "summary.csv": _summary(results),
        "pairs.csv": _pairs(results),
    }
    written = []
    for name, rows in tables.items():
        write_atomically(folder / name, _csv(list(rows)))
        written.append(folder / name)
    return written


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _cells(results: Results) -> Iterable[dict[str, Any]]:
    for cell in results.cells:
        row: dict[str, Any] = {
            "setting": cell.setting,
            "system": cell.system,
            "seed": cell.seed,
            "serves": cell.level,
            "overall": cell.scores.overall,
            "worst_region": cell.scores.worst_region.name,
            "worst": cell.scores.worst_region.score,
            "spread": cell.scores.spread,
        }
        for task in results.tasks():
            row[f"task_{task}"] = cell.scores.tasks.get(task, "")
        row |= {
            "rounds": cell.rounds,
            "parameters": cell.parameters,
            "seconds": round(cell.seconds, 2),
            "bytes_per_client_round": round(cell.cost.bytes),
            "exchanges_per_client_round": round(cell.cost.exchanges, 3),
            "memory_mb": round(cell.memory_mb),
        }
        if cell.privacy is not None:
            row |= {
                "noise_multiplier": cell.privacy.noise_multiplier,
                "clipping_norm": cell.privacy.clipping_norm,
                "epsilon": cell.privacy.epsilon,
                "published_epsilon_form": cell.privacy.published_form,
            }
        yield row


def _regions(results: Results) -> Iterable[dict[str, Any]]:
    for cell in results.cells:
        for region, found in cell.scores.regions.items():
            row: dict[str, Any] = {
                "setting": cell.setting,
                "system": cell.system,
                "seed": cell.seed,
                "region": region,
                "overall": found.overall,
            }
            for task, score in found.tasks.items():
                row[f"task_{task}"] = score.score
                for name, value in score.metrics.items():
                    row[f"task_{task}_{name}"] = value
            yield row


def _summary(results: Results) -> Iterable[dict[str, Any]]:
    for setting in results.settings:
        for system in results.systems(setting):
            row: dict[str, Any] = {"setting": setting, "system": system}
            for measure in MEASURES:
                found = results.summary(setting, system, measure)
                row |= {
                    "seeds": found.count,
                    f"{measure}_mean": found.mean,
                    f"{measure}_sd": found.sd,
                    f"{measure}_low": found.low,
                    f"{measure}_high": found.high,
                }
            for task in results.tasks():
                values = [
                    cell.scores.tasks[task]
                    for cell in results.of(setting, system)
                    if task in cell.scores.tasks
                ]
                if values:
                    row[f"task_{task}_mean"] = interval(values).mean
            yield row


def _pairs(results: Results) -> Iterable[dict[str, Any]]:
    for setting in results.settings:
        names = results.systems(setting)
        for first in names:
            for second in names:
                if first == second:
                    continue
                for measure in MEASURES:
                    found = results.difference(setting, first, second, measure)
                    if found is not None:
                        yield {
                            "setting": setting,
                            "first": first,
                            "second": second,
                            "measure": measure,
                            "seeds": found.count,
                            "difference": found.mean,
                            "low": found.low,
                            "high": found.high,
                        }
