"""The plots of a report, each a pure function from figures to an SVG element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from regionfed.report.gather import Series
from regionfed.report.style import LEVEL_COLOURS, styled, to_svg
from regionfed.run.records import ConflictMatrix, CurvePoint

_WIDTH = 9.6
_MOST_CELL_LABELS = 20


def convergence(
    by_level: Series, by_region: Series, *, level: str, shades: Mapping[str, Any]
) -> str:
    """Overall score over the rounds: by level on the left, by region on the right."""
    with styled():
        figure = Figure(figsize=(_WIDTH, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for name, points in by_level.items():
            _line(left, points, label=name, colour=LEVEL_COLOURS[name])
        left.set_title("all regions, by level")
        left.set_ylabel("score")
        left.legend(loc="best")
        for name, points in by_region.items():
            _line(right, points, label=name, colour=shades[name])
        right.set_title(f"each region, {level} level")
        _side_legend(right)
        for axes in (left, right):
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        return to_svg(figure, name="convergence")


def trajectories(panels: Mapping[str, Series], *, shades: Mapping[str, Any]) -> str:
    """Quantities of each region over the rounds, side by side; `panels` holds them by title."""
    with styled():
        figure = Figure(figsize=(_WIDTH * max(len(panels), 2) / 3, 2.9), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, series) in zip(grid, panels.items(), strict=True):
            for region, points in series.items():
                _line(axes, points, label=region, colour=shades[region])
            axes.set_title(title)
        lines = {line.get_label(): line for axes in grid for line in axes.get_lines()}
        _side_legend(grid[-1], {name: lines[name] for name in shades if name in lines})
        return to_svg(figure, name="trajectories")


def score_map(scores: Mapping[str, Mapping[str, float]], *, worst: str) -> str:
    """Regions x tasks as a heat map; the worst region's name is bold."""
    regions = list(scores)
    tasks = list(dict.fromkeys(task for row in scores.values() for task in row))
    values = np.array([[scores[r].get(t, np.nan) for t in tasks] for r in regions])
    with styled():
        figure = Figure(
            figsize=(2.0 + 1.15 * len(tasks), 0.9 + 0.36 * len(regions)), layout="constrained"
        )
        axes = figure.subplots()
        _heat(axes, values, rows=regions, columns=tasks, low=0.0, high=1.0, colours_of="viridis")
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() == worst else "normal")
        return to_svg(figure, name="scores")


def conflict_maps(matrix: ConflictMatrix) -> str:
    """Pairwise cosine and distance of the regions' updates."""
    names = list(matrix.regions)
    with styled():
        size = 1.6 + 0.42 * len(names)
        figure = Figure(figsize=(2 * size + 0.8, size), layout="constrained")
        left, right = figure.subplots(1, 2)
        cosine, distance = np.array(matrix.cosine), np.array(matrix.distance)
        _heat(
            left, cosine, rows=names, columns=names, low=-1.0, high=1.0, colours_of="RdBu", digits=2
        )
        left.set_title("cosine (1: same direction)")
        top = float(distance.max()) or 1.0
        _heat(
            right,
            distance,
            rows=names,
            columns=names,
            low=0.0,
            high=top,
            colours_of="viridis",
            digits=2,
        )
        right.set_title("distance")
        return to_svg(figure, name="conflict")


def gains(by_level: Mapping[str, Mapping[str, float]]) -> str:
    """Points gained over the global model, by task, for each personal level."""
    tasks = list(next(iter(by_level.values())))
    with styled():
        figure = Figure(figsize=(_WIDTH * 0.62, 0.9 + 0.45 * len(tasks)), layout="constrained")
        axes = figure.subplots()
        height = 0.8 / len(by_level)
        for at, (level, values) in enumerate(by_level.items()):
            places = np.arange(len(tasks)) + (at - (len(by_level) - 1) / 2) * height
            points = [100 * values[task] for task in tasks]
            bars = axes.barh(
                places, points, height=height * 0.92, label=level, color=LEVEL_COLOURS[level]
            )
            axes.bar_label(bars, fmt="%+.1f", padding=3, fontsize=9)
        axes.set_yticks(np.arange(len(tasks)), tasks)
        axes.invert_yaxis()
        axes.axvline(0, color="#8a8f98", linewidth=0.9)
        axes.set_xlabel("points over the global model")
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.14)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return to_svg(figure, name="gains")


def rho_curves(
    curves: Mapping[str, Sequence[CurvePoint]],
    served: Mapping[str, float],
    *,
    shades: Mapping[str, Any],
) -> str:
    """Validation loss over rho, one small plot per region; the dot is what is served."""
    columns = min(4, len(curves))
    rows = -(-len(curves) // columns)
    with styled():
        figure = Figure(figsize=(_WIDTH * columns / 4, 1.9 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, (region, curve) in zip(grid.flat, curves.items(), strict=False):
            points = sorted((point.rho, point.loss) for point in curve)
            axes.plot(*zip(*points, strict=True), color=shades[region], linewidth=1.4)
            at = min(points, key=lambda point: abs(point[0] - served[region]))
            axes.plot(*at, "o", color=shades[region], markersize=6)
            axes.set_title(region, fontsize=10)
            axes.xaxis.set_major_locator(MaxNLocator(3))
            axes.yaxis.set_major_locator(MaxNLocator(3))
        for axes in grid.flat[len(curves) :]:
            axes.set_visible(False)
        figure.supxlabel("rho", fontsize=10)
        figure.supylabel("validation loss", fontsize=10)
        return to_svg(figure, name="rho-curves")


def _line(axes: Axes, points: Sequence[tuple[int, float]], *, label: str, colour: object) -> None:
    axes.plot(*zip(*points, strict=True), marker="o", label=label, color=colour)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _side_legend(axes: Axes, lines: Mapping[Any, Any] | None = None) -> None:
    """A legend to the right; `lines` by name, when they are not only those of these axes."""
    given = {} if lines is None else {"handles": list(lines.values()), "labels": list(lines)}
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, handlelength=1.2, **given)


def _heat(
    axes: Axes,
    values: np.ndarray,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    low: float,
    high: float,
    colours_of: str,
    digits: int | None = None,
) -> None:
    """A heat map with its values written in; `digits` None writes percent."""
    image = axes.imshow(values, cmap=colours_of, vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=30 if len(columns) > 4 else 0)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    if max(len(rows), len(columns)) > _MOST_CELL_LABELS:
        axes.figure.colorbar(image, ax=axes)
        return
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        red, green, blue, _ = image.cmap(image.norm(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        text = f"{100 * value:.1f}" if digits is None else f"{value:.{digits}f}"
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=9,
            color="#ffffff" if dark else "#111111",
        )
