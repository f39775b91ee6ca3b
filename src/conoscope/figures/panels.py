"""Panels: charts of one kind beside each other, under headers."""

from collections.abc import Sequence

from conoscope.figures.base import Chart

WIDE, NARROW = (460, 260), (300, 170)
"""Width and height of one panel alone, and of one among several."""


def paneled(chart: Chart, panels: Sequence[str], column: str = "panel", columns: int = 2) -> Chart:
    """A panel for each name of a column, in that order; names may have several lines."""
    import altair as alt

    header = alt.Header(title=None, labelAnchor="start", labelAlign="left", labelExpr="split(datum.label, '\\n')")
    faceted = chart.facet(facet=alt.Facet(f"{column}:N", sort=list(panels), header=header), columns=columns, spacing=18)
    return faceted.resolve_axis(x="independent")
