"""Puts the sections into the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from regionfed.report.gather import ReportData, gather
from regionfed.report.sections import sections
from regionfed.run.files import write_atomically
from regionfed.run.folder import RunFolder
from regionfed.units import amount, duration, percent


@dataclass(frozen=True)
class Tile:
    """One figure at the top of the page."""

    label: str
    value: str
    note: str = ""


def write_report(run_folder: Path) -> Path:
    """Write the report of a run. Raises StateError when the folder is no run's or is damaged."""
    folder = RunFolder.open(run_folder)
    data = gather(folder)
    environment = Environment(
        loader=PackageLoader("regionfed.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        name=data.config.run.name,
        status=_status(data),
        reason=data.result.reason if data.result else "",
        subtitle=_subtitle(data),
        tiles=_tiles(data),
        sections=sections(data),
    )
    write_atomically(folder.report_file, page.encode())
    return folder.report_file


def _status(data: ReportData) -> str:
    if data.result is None:
        return "not ended"
    return "completed" if data.result.status == "ok" else "failed"


def _subtitle(data: ReportData) -> str:
    result = data.result
    parts: list[str] = [data.config.method.strategy]
    if result is not None:
        parts.insert(0, result.model.kind)
        parts.append(f"{len(result.topology.regions)} regions")
        if result.started:
            parts.append(f"started {datetime.fromisoformat(result.started):%Y-%m-%d %H:%M} UTC")
    return ", ".join(parts)


def _tiles(data: ReportData) -> list[Tile]:
    """The headline: overall score, worst region, spread, rounds, bytes."""
    found: list[Tile] = []
    if data.headline is not None:
        served, base = data.scores[data.headline], data.scores.get("global")
        gained = ""
        if base is not None and data.headline != "global":
            gained = f"{100 * (served.overall - base.overall):+.1f} points over global"
        found += [
            Tile(f"overall, {data.headline} level", percent(served.overall), gained),
            Tile("worst region", percent(served.worst_region.score), served.worst_region.name),
            Tile("spread", percent(served.spread), "best minus worst region"),
        ]
    history = data.history
    if history.rounds:
        seconds = data.result.seconds if data.result else sum(r.seconds for r in history.rounds)
        found += [
            Tile(
                "rounds",
                str(sum(bool(r.answered) for r in history.rounds)),
                f"of {data.config.run.rounds}, in {duration(seconds)}",
            ),
            Tile("moved", amount(history.traffic().total), "over both hops, both ways"),
        ]
    epsilon = data.result.privacy.epsilon if data.result else None
    found.append(
        Tile(
            "privacy",
            data.config.privacy.mode if epsilon is None else f"epsilon {epsilon:.3g}",
            "no noise" if data.config.privacy.mode == "off" else f"mode {data.config.privacy.mode}",
        )
    )
    return found
