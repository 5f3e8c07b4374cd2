"""The sections of a report in their order; one whose figures are absent is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regionfed.report import plots, words
from regionfed.report.gather import ReportData, Series
from regionfed.report.ledgers import privacy_rows
from regionfed.report.style import colours
from regionfed.run.promise import words as promise_words
from regionfed.run.records import PersonaliseRecord
from regionfed.run.scores import Level
from regionfed.units import amount, duration, percent


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text; columns named in `numbers` are aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with text, plots and a table, each of which may be absent."""

    title: str
    text: str = ""
    plots: tuple[str, ...] = ()
    table: Table | None = None
    code: str = ""


def sections(data: ReportData) -> list[Section]:
    """Every section that the run has figures for."""
    return [
        *_results(data),
        *_convergence(data),
        *_score_map(data),
        *_gains(data),
        *_strategies(data),
        *_trajectories(data),
        *_conflict(data),
        *_omissions(data),
        *_privacy(data),
        *_cost(data),
        *_environment(data),
    ]


def _results(data: ReportData) -> Iterator[Section]:
    headline = data.headline
    if headline is None:
        return
    served = data.scores[headline]
    rows = []
    for name in data.regions:
        cells = [name + (" (worst)" if name == served.worst_region.name else "")]
        for level in data.levels:
            scores = data.scores[level].regions.get(name)
            cells.append(percent(scores.overall) if scores else "")
        cells.append(_gain(data, name, headline))
        rows.append(tuple(cells))
    overall = [percent(data.scores[level].overall) for level in data.levels]
    base = data.scores.get("global")
    total = "" if base is None or headline == "global" else _points(served.overall - base.overall)
    rows.append(("all regions", *overall, total))
    shown = "; ".join(f"{level}: {words.LEVELS[level]}" for level in data.levels)
    columns: tuple[str, ...] = ("region", *data.levels, "gain over global")
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    yield Section(
        title="Result by region",
        text=f"Score in percent on held-out data, the unweighted mean of the tasks. {_sentence(shown)}",
        table=Table(columns=columns, rows=tuple(rows), numbers=frozenset(columns[1:])),
    )


def _gain(data: ReportData, region: str, headline: Level) -> str:
    """Points of the served level over the global model in one region."""
    base, served = data.scores.get("global"), data.scores[headline]
    if base is None or headline == "global":
        return ""
    if region not in base.regions or region not in served.regions:
        return ""
    return _points(served.regions[region].overall - base.regions[region].overall)


def _convergence(data: ReportData) -> Iterator[Section]:
    by_level = data.overall_by_level()
    if max(map(len, by_level.values()), default=0) < 2:
        return
    # Parts may be computed at the end only; then the global model shows how the run went.
    shown = max(reversed(data.levels), key=lambda level: len(by_level[level]))
    yield Section(
        title="Convergence",
        text="Score on held-out data after each evaluated round.",
        plots=(
            plots.convergence(
                by_level,
                data.overall_by_region(shown),
                level=shown,
                shades=colours(data.regions),
            ),
        ),
    )


def _score_map(data: ReportData) -> Iterator[Section]:
    if data.headline is None:
        return
    level = data.scores[data.headline]
    scores = {
        name: {task: score.score for task, score in region.tasks.items()}
        for name, region in level.regions.items()
    }
    yield Section(
        title="Regions by task",
        text=f"Score in percent at the {data.headline} level; the worst region is in bold.",
        plots=(plots.score_map(scores, worst=level.worst_region.name),),
    )


def _gains(data: ReportData) -> Iterator[Section]:
    base = data.scores.get("global")
    if base is None:
        return
    found: dict[str, dict[str, float]] = {
        level: {"overall": data.scores[level].overall - base.overall}
        | {task: data.scores[level].tasks[task] - value for task, value in base.tasks.items()}
        for level in data.levels
        if level in ("regional", "user") and data.scores[level].tasks.keys() >= base.tasks.keys()
    }
    if found:
        yield Section(
            title="What personalisation gains",
            text="Difference to the global model on the same held-out rows, by task. Where a bar is "
            "not to the right of zero, personalisation gave nothing.",
            plots=(plots.gains(found),),
        )


def _strategies(data: ReportData) -> Iterator[Section]:
    parts = data.last_parts()
    if not parts:
        return
    rows = tuple(
        (
            name,
            part.strategy,
            "yes" if part.served else "no",
            "" if part.alpha is None else f"{part.alpha:.3f}",
            words.strength(part),
            words.verdict(part),
            part.why,
        )
        for name, part in parts.items()
    )
    curves = {name: part.curve for name, part in parts.items() if len(part.curve) > 2}
    drawn = (
        (
            plots.rho_curves(
                curves,
                {name: _served_rho(parts[name]) for name in curves},
                shades=colours(data.regions),
            ),
        )
        if curves
        else ()
    )
    yield Section(
        title="Strategies chosen",
        text="The last personalisation of each region. A part is served only if it beats the global "
        "model on the region's validation data."
        + (" The plots show the search; the dot is what is served." if curves else ""),
        table=Table(
            columns=("region", "strategy", "served", "alpha", "rho", "verdict", "why"),
            rows=rows,
            numbers=frozenset({"alpha"}),
        ),
        plots=drawn,
    )


def _served_rho(part: PersonaliseRecord) -> float:
    return part.rho if part.served and part.rho is not None else 0.0


def _trajectories(data: ReportData) -> Iterator[Section]:
    wanted: dict[str, Series] = {
        "conflict d_r": data.conflict(),
        "strength alpha_r": data.alpha(),
        "served rho": data.rho(),
    }
    # A single point draws no line; it stands in the table of strategies.
    panels = {
        title: series
        for title, series in wanted.items()
        if series and max(map(len, series.values())) > 1
    }
    if not panels:
        return
    mu = next((record.mu for record in data.history.rounds if record.mu is not None), None)
    calibration = f" alpha_r is calibrated at mu = {mu:.4g}, the median d_r." if mu else ""
    searched = " A rho of 0 means that no part is served." if "served rho" in panels else ""
    yield Section(
        title="Conflict and strength over the rounds",
        text="d_r is the distance of a region's update from the global one: the larger, the less "
        f"one model fits all.{calibration}{searched}",
        plots=(plots.trajectories(panels, shades=colours(data.regions)),),
    )


def _conflict(data: ReportData) -> Iterator[Section]:
    found = data.last_matrix()
    if found is None:
        return
    round, matrix = found
    yield Section(
        title="Who disagrees with whom",
        text=f"Between the regions' updates in round {round}. A negative cosine means that what "
        "helps one region harms the other.",
        plots=(plots.conflict_maps(matrix),),
    )


def _omissions(data: ReportData) -> Iterator[Section]:
    rows = [
        (str(record.round), each.region, "", each.reason)
        for record in data.history.rounds
        for each in record.skipped
    ]
    rows += [
        (str(record.round), each.region, each.client, each.reason)
        for record in data.history.rounds
        for each in record.left_out
    ]
    if rows:
        yield Section(
            title="Skipped and left out",
            text="Regions that had no part in a round, and clients whose answer did not count.",
            table=Table(
                columns=("round", "region", "client", "reason"),
                rows=tuple(sorted(rows, key=lambda row: int(row[0]))),
                numbers=frozenset({"round"}),
            ),
        )


def _privacy(data: ReportData) -> Iterator[Section]:
    section = data.config.privacy
    privacy = data.result.privacy if data.result else None
    text = privacy.statement if privacy else promise_words(data.config)
    if privacy is not None and privacy.epsilon is not None:
        text += (
            f" The largest epsilon of a region is {privacy.epsilon:.4g} at delta {privacy.delta:g}"
        )
        text += f", of a budget of {privacy.budget:g}." if privacy.budget else "."
    masked = privacy.secure_aggregation if privacy else section.secure_aggregation.enabled
    text += (
        " Updates were summed under masks (secure aggregation)."
        if masked
        else " Secure aggregation is off: a coordinator sees each of its clients' updates."
    )
    if privacy is not None:
        example = privacy.example_level
        told = (
            example.statement.rstrip(".") if example else "",
            privacy.feasibility,
            *privacy.notes,
            privacy.paper,
        )
        text += "".join(f" {_sentence(part)}" for part in told if part)
    rows = privacy_rows(privacy) if privacy is not None else ()
    columns = ("ledger", "unit", "epsilon", "left", "epsilon, outsiders", "releases")
    table = Table(columns=columns, rows=rows, numbers=frozenset(columns[2:5])) if rows else None
    yield Section(title=f"Privacy: {section.mode}", text=text, table=table)


def _cost(data: ReportData) -> Iterator[Section]:
    history = data.history
    if not history.rounds:
        return
    traffic, count = history.traffic(), len(history.rounds)
    seconds = sum(record.seconds for record in history.rounds)
    rows = []
    for hop, moved in (
        ("server and coordinators", traffic.server_coordinator),
        ("coordinators and clients", traffic.coordinator_client),
    ):
        if moved.up or moved.down:
            rows.append(
                (hop, amount(moved.down), amount(moved.up), amount((moved.up + moved.down) / count))
            )
    phases = history.seconds_by_phase()
    spent = ", ".join(
        f"{phase} {duration(used)}"
        for phase, used in sorted(phases.items(), key=lambda item: -item[1])
    )
    columns = ("between", "down", "up", "per round")
    yield Section(
        title="Time and bytes",
        text=f"{count} rounds took {duration(seconds)}, {duration(seconds / count)} each"
        + (f": {spent}." if spent else "."),
        table=Table(columns=columns, rows=tuple(rows), numbers=frozenset(columns[1:]))
        if rows
        else None,
    )


def _environment(data: ReportData) -> Iterator[Section]:
    rows: list[tuple[str, str]] = []
    result = data.result
    if result is not None:
        clients = sum(map(len, result.topology.regions.values()))
        how: dict[str, Any] = {
            "simulate": "all tiers in one process",
            "up": "processes of one machine over gRPC",
            "deployed": "separate hosts",
        }
        rows += [
            (
                "run",
                f"{how[result.topology.engine]}; {len(result.topology.regions)} regions, {clients} clients",
            ),
            (
                "model",
                " ".join(part for part in (result.model.kind, result.model.name) if part)
                + f", {result.model.parameters:,} trained parameters, {amount(result.model.bytes)}",
            ),
            ("seed", str(result.seed)),
            ("machine", ", ".join(f"{key} {value}" for key, value in result.machine.items())),
            ("versions", ", ".join(f"{key} {value}" for key, value in result.versions.items())),
        ]
    rows.append(("configuration digest", data.config.digest()))
    yield Section(
        title="Where it ran, and how",
        table=Table(columns=("", ""), rows=tuple(rows)),
        code=data.configuration_text,
    )


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
