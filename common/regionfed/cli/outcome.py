"""The tables that a person reads at the end of a run."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from regionfed.run.result import Result
from regionfed.run.scores import LEVELS
from regionfed.units import amount, duration, percent


def print_outcome(result: Result, console: Console, *, folder: Path, report: Path | None) -> None:
    """Scores by region and level, what was left out, privacy, and where everything lies."""
    console.print()
    if result.levels:
        console.print(scores_table(result))
    if result.worst_region is not None and result.spread is not None:
        console.print(
            f"worst region {result.worst_region.name} {percent(result.worst_region.score)}, "
            f"spread {percent(result.spread)}",
            highlight=False,
            markup=False,
        )
    for each in result.skipped:
        console.print(
            f"round {each.round}: {each.region} skipped: {each.reason}",
            style="yellow",
            markup=False,
        )
    for left in result.left_out:
        console.print(
            f"round {left.round}: {left.region}/{left.client} left out: {left.reason}",
            style="yellow",
            markup=False,
        )
    console.print(
        f"{result.rounds_done} of {result.rounds_planned} rounds in {duration(result.seconds)}, "
        f"{amount(result.traffic.total)} moved, {result.model.parameters:,} parameters",
        highlight=False,
        markup=False,
    )
    console.print(result.privacy.statement, style="dim", markup=False)
    if result.privacy.example_level is not None:
        console.print(result.privacy.example_level.statement, style="dim", markup=False)
    console.print(f"result {folder / 'result.json'}", markup=False, soft_wrap=True)
    if report is not None:
        console.print(f"report {report}", markup=False, soft_wrap=True)


def outcome_line(result: Result, *, folder: Path) -> str:
    """The outcome in one line, for logs that machines read."""
    scores = "".join(
        f", {level} {percent(result.levels[level].overall)}"
        for level in LEVELS
        if level in result.levels
    )
    return (
        f"run {result.run} ended: {result.status}, {result.rounds_done} of "
        f"{result.rounds_planned} rounds in {duration(result.seconds)}{scores}; {len(result.skipped)} "
        f"regions skipped, {len(result.left_out)} clients left out; {folder / 'result.json'}"
    )


def scores_table(result: Result) -> Table:
    """One row per region, one column per level, then strategy and verdict."""
    levels = [level for level in LEVELS if level in result.levels]
    table = Table(title=f"{result.run}: scores on held-out data")
    table.add_column("region")
    for level in levels:
        table.add_column(level, justify="right")
    table.add_column("strategy")
    table.add_column("verdict")
    names = dict.fromkeys(name for level in levels for name in result.levels[level].regions)
    for name in names:
        scores = [result.levels[level].regions.get(name) for level in levels]
        region = result.regions.get(name)
        table.add_row(
            name,
            *(percent(score.overall) if score else "" for score in scores),
            region.strategy if region else "",
            (region.verdict or "") if region else "",
        )
    table.add_section()
    table.add_row("overall", *(percent(result.levels[level].overall) for level in levels), "", "")
    return table
