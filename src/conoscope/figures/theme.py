"""The one theme of all figures: readable in print, safe for the colour-blind; a page recolours text and axes in the dark."""

from typing import Any, Final

from conoscope.figures.notebooks import shown

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A")
"""Okabe and Ito's, without black and yellow: they are told apart by the colour-blind, on white and on black."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
SEQUENTIAL: Final = "viridis"
"""For numbers from low to high."""
DIVERGING: Final = "blueorange"
"""For numbers on both sides of zero."""
GREY = "#757d86"
"""Of text and rules inside a chart, which no style sheet recolours: it reads on white and on black."""
INK, FAINT, GRID = "#1f2328", "#57606a", "#d8dee4"
"""Of text, of axes, of grids; chart.css has those of dark pages."""
WIDTH = 640
"""The widest that a figure of one panel is, in pixels."""

CONFIG: dict[str, Any] = {
    # No limits of length: names are cut before they come here (see marks.cut).
    "background": "transparent",
    "font": "sans-serif",
    "view": {"stroke": None, "continuousWidth": 420, "continuousHeight": 260},
    "axis": {
        "labelColor": INK, "titleColor": INK, "domainColor": FAINT, "tickColor": FAINT, "gridColor": GRID,
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 0,
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal",
               "labelLimit": 0, "titleLimit": 0, "symbolStrokeWidth": 2},
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 0},
    "title": {"color": INK, "fontSize": 13, "fontWeight": "normal", "anchor": "start", "limit": 0},
    "text": {"fontSize": 11},
    "line": {"strokeWidth": 2},
    "range": {"category": list(PALETTE), "symbol": list(SHAPES)},
}  # fmt: skip


def themed(chart: Any) -> Any:
    """The chart with the one theme, which is safe to show in a notebook."""
    return shown(chart.configure(**CONFIG))
