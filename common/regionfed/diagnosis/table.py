"""A diagnosis on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from regionfed.diagnosis.report import DiagnosisReport, RegionFinding
from regionfed.method.diagnose import Finding
from regionfed.units import amount, duration

STYLES = {Finding.ALIGNED: "green", Finding.MILD: "yellow", Finding.SEVERE: "red"}
_MOST_COLUMNS = 12


def print_diagnosis(report: DiagnosisReport, console: Console) -> None:
    """Verdicts, who disagrees with whom, what follows, and how far the data could see."""
    console.print(verdict_table(report))
    if len(report.matrix.regions) <= _MOST_COLUMNS:
        console.print(matrix_table(report))
    for region, reason in report.left_out.items():
        console.print(f"{region} left out: {reason}", style="yellow", markup=False)
    console.print(report.summary(), markup=False, highlight=False)
    for each in report.regions:
        console.print(f"{each.region}: {each.explanation}", markup=False, highlight=False)
    blind = report.blindness()
    if blind:
        console.print(blind, style="yellow", markup=False, highlight=False)
    settings = report.settings
    console.print(
        f"{settings.warmup} warm-up and {settings.rounds} measuring rounds in "
        f"{duration(report.seconds)}, {amount(report.bytes_moved)} moved, training loss "
        f"{report.losses[-1]:.3f}",
        style="dim",
        markup=False,
        highlight=False,
    )


def verdict_table(report: DiagnosisReport) -> Table:
    """One row per region."""
    table = Table(title=f"{report.name}: do the regions pull in one direction?")
    table.add_column("region")
    for heading in ("d_r", "floor", "ratio", "p", "gap", "h_r"):
        table.add_column(heading, justify="right")
    table.add_column("verdict", no_wrap=True)
    table.add_column("strategy", no_wrap=True)
    for each in report.regions:
        table.add_row(
            each.region,
            f"{each.conflict:.3g}",
            f"{each.floor:.3g}",
            f"{each.dispersion_ratio:.2f}",
            f"{each.p_value:.3f}",
            _gap(each),
            f"{each.divergence:.3f}",
            f"[{STYLES[each.finding]}]{each.finding.value}[/]",
            each.strategy,
        )
    return table


def matrix_table(report: DiagnosisReport) -> Table:
    """Cosines between the regions' updates."""
    table = Table(title="cosine between the regions' updates (1: same direction)")
    table.add_column("")
    for name in report.matrix.regions:
        table.add_column(name, justify="right")
    for name, row in zip(report.matrix.regions, report.matrix.cosine, strict=True):
        table.add_row(name, *(f"{value:.2f}" for value in row))
    return table


def _gap(each: RegionFinding) -> str:
    return "?" if each.relative_gap is None else f"{each.relative_gap:.2f}"
