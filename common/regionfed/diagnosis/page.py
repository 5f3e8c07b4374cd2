"""A diagnosis as one HTML page that stands alone: bars, conflict maps and the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from regionfed.diagnosis.report import DiagnosisReport
from regionfed.method.diagnose import Finding
from regionfed.report.plots import conflict_maps
from regionfed.report.sections import Section, Table
from regionfed.report.style import styled, to_svg
from regionfed.report.write import Tile
from regionfed.run.files import write_atomically
from regionfed.units import amount, duration

FILE = "diagnosis.html"

_COLOURS = {Finding.ALIGNED: "#2e9e6b", Finding.MILD: "#c98a2b", Finding.SEVERE: "#c8504f"}


def write_page(report: DiagnosisReport, folder: Path) -> Path:
    """Write `diagnosis.html` into the folder and return its path."""
    environment = Environment(
        loader=PackageLoader("regionfed.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = report.settings
    page = environment.get_template("report.html.j2").render(
        name=report.name,
        status="completed diagnosis",
        reason="",
        subtitle=f"{settings.warmup} warm-up and {settings.rounds} measuring rounds, "
        f"{len(report.regions)} regions, {report.parameters:,} parameters",
        tiles=_tiles(report),
        sections=list(_sections(report)),
        footer="Written by regionfed from diagnosis.json in this folder.",
    )
    path = folder / FILE
    write_atomically(path, page.encode())
    return path


def _tiles(report: DiagnosisReport) -> list[Tile]:
    by = {f: sum(each.finding is f for each in report.regions) for f in Finding}
    return [
        *(Tile(finding.value, str(by[finding]), "regions") for finding in Finding),
        Tile("took", duration(report.seconds), f"{amount(report.bytes_moved)} moved"),
    ]


def _sections(report: DiagnosisReport) -> list[Section]:
    return [
        Section(
            title="Is a global model enough?",
            text=report.summary(),
            plots=(conflict_bars(report), gap_bars(report)),
            table=Table(
                columns=("region", "verdict", "d_r", "noise floor", "ratio", "p", "h_r", "routed"),
                rows=tuple(
                    (
                        each.region,
                        each.finding.value,
                        f"{each.conflict:.4g}",
                        f"{each.floor:.4g}",
                        f"{each.dispersion_ratio:.2f}",
                        f"{each.p_value:.3f}",
                        f"{each.divergence:.3f}",
                        each.strategy,
                    )
                    for each in report.regions
                ),
                numbers=frozenset({"d_r", "noise floor", "ratio", "p", "h_r"}),
            ),
        ),
        Section(
            title="Who disagrees with whom",
            text="Pairwise comparison of the regions' mean updates at the same model.",
            plots=(conflict_maps(report.matrix),),
        ),
        Section(
            title="Verdicts in words",
            text=report.blindness(),
            table=Table(
                columns=("region", "finding"),
                rows=tuple((each.region, each.explanation) for each in report.regions)
                + tuple((name, f"left out: {why}") for name, why in report.left_out.items()),
            ),
        ),
    ]


def conflict_bars(report: DiagnosisReport) -> str:
    """d_r of each region, coloured by verdict, with its noise floor marked."""
    names = [each.region for each in report.regions]
    with styled():
        figure = Figure(figsize=(4.7, 0.9 + 0.32 * len(names)), layout="constrained")
        axes = figure.subplots()
        places = np.arange(len(names))
        axes.barh(
            places,
            [each.conflict for each in report.regions],
            color=[_COLOURS[each.finding] for each in report.regions],
            height=0.7,
        )
        axes.scatter(
            [each.floor for each in report.regions],
            places,
            marker="|",
            s=220,
            linewidths=2.2,
            color="#8a8f98",
            label="noise floor",
            zorder=3,
        )
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_title("conflict d_r and what chance makes of it")
        axes.legend(loc="lower right", fontsize=9)
        return to_svg(figure, name="diagnosis-conflict")


def gap_bars(report: DiagnosisReport) -> str:
    """Relative gap of each region against the thresholds; pale where chance explains it."""
    names = [each.region for each in report.regions]
    with styled():
        figure = Figure(figsize=(4.7, 0.9 + 0.32 * len(names)), layout="constrained")
        axes = figure.subplots()
        places = np.arange(len(names))
        bars = axes.barh(
            places,
            [each.relative_gap or 0.0 for each in report.regions],
            color=[_COLOURS[each.finding] for each in report.regions],
            height=0.7,
        )
        for bar, each in zip(bars, report.regions, strict=True):
            bar.set_alpha(1.0 if each.p_value <= report.level else 0.35)
        for value, label in ((report.negligible, "negligible"), (report.severe, "severe")):
            axes.axvline(value, color="#8a8f98", linewidth=1.2, linestyle="--")
            axes.text(value, -0.75, label, ha="center", fontsize=9)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("gap to the majority over the update's length (pale: p above level)")
        return to_svg(figure, name="diagnosis-gap")
