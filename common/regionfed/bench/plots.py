"""The plots of a benchmark's report, each a pure function from results to an SVG element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from regionfed.bench.claims import label
from regionfed.bench.tables import MEASURES, Results
from regionfed.report.style import colours, styled, to_svg

_WIDTH = 9.6


def convergence(results: Results, setting: str) -> str | None:
    """Overall score over the rounds, mean over seeds; systems without a curve as dashed lines."""
    names = results.systems(setting)
    curves = {name: _curve(results, setting, name) for name in names}
    if all(len(curve) < 2 for curve in curves.values()):
        return None
    shades = colours(names)
    with styled():
        figure = Figure(figsize=(_WIDTH, 4.6), layout="constrained")
        axes = figure.subplots()
        for name, curve in curves.items():
            if len(curve) < 2:
                height = next(iter(curve.values()))
                axes.axhline(
                    height, linestyle="--", linewidth=1.2, color=shades[name], label=label(name)
                )
            else:
                axes.plot(
                    list(curve),
                    list(curve.values()),
                    marker="o",
                    color=shades[name],
                    label=label(name),
                )
        axes.set_xlabel("round")
        axes.set_ylabel("overall score")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
        return to_svg(figure, name=f"convergence-{setting}")


def bars(results: Results, setting: str) -> str:
    """Overall score and worst region of every system, with 95% intervals over seeds."""
    names = results.systems(setting)
    with styled():
        figure = Figure(figsize=(_WIDTH, 1.2 + 0.3 * len(names)), layout="constrained")
        grid = figure.subplots(1, 2, sharey=True)
        for axes, measure in zip(grid, ("overall", "worst"), strict=True):
            found = [results.summary(setting, name, measure) for name in names]
            means = [100 * each.mean for each in found]
            axes.barh(
                range(len(names)),
                means,
                xerr=[
                    100 * (each.high - each.mean) if np.isfinite(each.high) else 0.0
                    for each in found
                ],
                color=["#2f7fd1" if name.startswith("regionfed") else "#8a8f98" for name in names],
                error_kw={"elinewidth": 1.0, "capsize": 2.5},
            )
            axes.set_title("overall" if measure == "overall" else "worst region")
            axes.set_xlim(0, 100)
            axes.set_xlabel("percent")
        grid[0].set_yticks(range(len(names)), [label(name) for name in names])
        grid[0].invert_yaxis()
        return to_svg(figure, name=f"bars-{setting}")


def region_map(results: Results, setting: str) -> str:
    """Regions x systems as a heat map, mean over seeds."""
    names = results.systems(setting)
    regions = list(
        dict.fromkeys(
            region
            for name in names
            for cell in results.of(setting, name)
            for region in cell.scores.regions
        )
    )
    values = np.full((len(names), len(regions)), np.nan)
    for row, name in enumerate(names):
        for column, region in enumerate(regions):
            found = [
                cell.scores.regions[region].overall
                for cell in results.of(setting, name)
                if region in cell.scores.regions
            ]
            values[row, column] = 100 * float(np.mean(found)) if found else np.nan
    with styled():
        figure = Figure(
            figsize=(2.8 + 0.7 * len(regions), 0.9 + 0.32 * len(names)), layout="constrained"
        )
        axes = figure.subplots()
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        axes.imshow(values, cmap="viridis", aspect="auto", vmin=low, vmax=high)
        axes.set_xticks(range(len(regions)), regions)
        axes.set_yticks(range(len(names)), [label(name) for name in names])
        axes.grid(visible=False)
        axes.tick_params(length=0)
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = value < low + 0.6 * (high - low)
                axes.text(
                    column,
                    row,
                    f"{value:.1f}",
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    color="#ffffff" if dark else "#111111",
                )
        return to_svg(figure, name=f"regions-{setting}")


def alphas(results: Results, setting: str) -> str | None:
    """alpha_r and d_r over the rounds of one RegionFed strategy (first seed), by region."""
    for name in ("regionfed-residual", *results.systems(setting)):
        cells = [cell for cell in results.of(setting, name) if cell.history]
        if cells:
            break
    else:
        return None
    history = cells[0].history
    regions = list(dict.fromkeys(str(item["region"]) for item in history))
    shades = colours(regions)
    with styled():
        figure = Figure(figsize=(_WIDTH, 3.2), layout="constrained")
        grid: Sequence[Axes] = list(figure.subplots(1, 2))
        for axes, key, title in zip(
            grid, ("alpha", "conflict"), ("strength alpha_r", "conflict d_r"), strict=True
        ):
            for region in regions:
                points = [(i["round"], i[key]) for i in history if i["region"] == region]
                axes.plot(*zip(*points, strict=True), color=shades[region], label=region)
            axes.set_title(f"{title} ({label(cells[0].system)}, seed {cells[0].seed})")
            axes.set_xlabel("round")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        grid[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
        return to_svg(figure, name=f"alphas-{setting}")


def sweep(results: Results, values: Mapping[str, Any], *, axis: str) -> str:
    """Overall and worst score of every system against the swept value; `values` by setting."""
    names = list(
        dict.fromkeys(name for setting in results.settings for name in results.systems(setting))
    )
    shades = colours(names)
    ticks = [str(value) for value in values.values()]
    with styled():
        figure = Figure(figsize=(_WIDTH, 3.8), layout="constrained")
        grid: Sequence[Axes] = list(figure.subplots(1, 2, sharey=True))
        for axes, measure in zip(grid, ("overall", "worst"), strict=True):
            _sweep_lines(axes, results, list(values), names, shades=shades, measure=measure)
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set_xlabel(axis)
            axes.set_title("overall" if measure == "overall" else "worst region")
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        grid[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
        return to_svg(figure, name="sweep")


def epsilons(results: Results) -> str | None:
    """Epsilon against accuracy: the honest accountant, and the published form beside it."""
    cells = [cell for cell in results.cells if cell.privacy is not None]
    if not cells:
        return None
    names = list(dict.fromkeys(cell.system for cell in cells))
    shades = colours(names)
    with styled():
        figure = Figure(figsize=(_WIDTH, 3.8), layout="constrained")
        axes = figure.subplots()
        for name in names:
            own = [(c.privacy, c.scores.overall) for c in cells if c.system == name]
            honest = [(p.epsilon, score) for p, score in own if p is not None]
            formula = [(p.published_form, score) for p, score in own if p is not None]
            axes.scatter(*zip(*honest, strict=True), color=shades[name], label=label(name))
            axes.scatter(
                *zip(*formula, strict=True),
                marker="x",
                color=shades[name],
                label=f"{label(name)}, paper's formula (no valid epsilon)",
            )
        axes.set_xscale("log")
        axes.set_xlabel("epsilon of the run for one client's data")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
        return to_svg(figure, name="epsilon")


def _curve(results: Results, setting: str, system: str) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for cell in results.of(setting, system):
        for point in cell.curve:
            found.setdefault(point.round, []).append(point.overall)
    return {number: float(np.mean(values)) for number, values in sorted(found.items())}


def _sweep_lines(
    axes: Axes,
    results: Results,
    settings: Sequence[str],
    names: Sequence[str],
    *,
    shades: Mapping[str, Any],
    measure: str,
) -> None:
    assert measure in MEASURES
    for name in names:
        places = [at for at, setting in enumerate(settings) if results.of(setting, name)]
        found = [results.summary(settings[at], name, measure) for at in places]
        spread = [each.high - each.mean if np.isfinite(each.high) else 0.0 for each in found]
        axes.errorbar(
            places,
            [each.mean for each in found],
            yerr=spread,
            marker="o",
            capsize=2.5,
            linewidth=1.4,
            color=shades[name],
            label=label(name),
        )
