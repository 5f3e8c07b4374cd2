"""The look of every plot: transparent, in the page's own text colour, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Stands for the page's text colour while matplotlib draws; replaced by `currentColor` at the end.
_INK = "#010203"

LEVEL_COLOURS = {
    "global": "#8a8f98",
    "regional": "#2f7fd1",
    "user": "#2e9e6b",
    "local": "#c98a2b",
}

_COLOURS = (
    "#2f7fd1",
    "#e07b39",
    "#2e9e6b",
    "#c8504f",
    "#8a6fc4",
    "#b08a3c",
    "#d067a8",
    "#3aa5b3",
)

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.7,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
}


def colours(names: Sequence[str]) -> dict[str, Any]:
    """A colour for each name; beyond eight, spread over the spectrum."""
    if len(names) <= len(_COLOURS):
        return dict(zip(names, _COLOURS, strict=False))
    spectrum = mpl.colormaps["turbo"]
    return {name: spectrum(0.06 + 0.88 * at / (len(names) - 1)) for at, name in enumerate(names)}


def styled() -> Any:
    """Context in which figures must be made and drawn."""
    return mpl.rc_context(_SETTINGS)


def to_svg(figure: Figure, *, name: str) -> str:
    """The figure as an SVG element to be placed in the page.

    `name` salts the element's inner ids, which must not collide within one page.
    """
    with mpl.rc_context({"svg.hashsalt": name}):
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None}
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    # Group ids such as axes_1 occur in every figure, and nothing refers to them.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    # The page decides the width; the height follows from the viewBox.
    text = re.sub(r'(<svg[^>]*?) width="([\d.]+)pt"', r'\1 style="width:\2pt"', text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", text, count=1)
    return text.replace(_INK, "currentColor")
