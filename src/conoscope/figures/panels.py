"""Panels: charts of one kind beside each other, under headers."""

from collections.abc import Mapping, Sequence

from conoscope.figures.base import Chart
from conoscope.figures.marks import cut

WIDE, NARROW = (460, 260), (300, 170)
"""Width and height of one panel alone, and of one among several."""
TITLE = 96
"""Columns of a run's name above its chart."""


def stacked(charts: Mapping[str, Chart]) -> Chart:
    """The charts of some runs, one under another, each under its run's name where there are several."""
    import altair as alt

    if len(charts) == 1:
        return alt.vconcat(*charts.values())
    return alt.vconcat(*(chart.properties(title=cut(run, TITLE)) for run, chart in charts.items()))


def paneled(chart: Chart, panels: Sequence[str], column: str = "panel", columns: int = 2) -> Chart:
    """A panel for each name of a column, in that order; names may have several lines."""
    import altair as alt

    header = alt.Header(title=None, labelAnchor="start", labelAlign="left", labelExpr="split(datum.label, '\\n')")
    faceted = chart.facet(facet=alt.Facet(f"{column}:N", sort=list(panels), header=header), columns=columns, spacing=18)
    return faceted.resolve_axis(x="independent")
