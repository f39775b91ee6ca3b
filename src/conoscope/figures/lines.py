"""Lines by layer: a panel for each of one column, a line for each of another, and a colour for each run."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, runs_of
from conoscope.figures.theme import FAINT, GRID, PALETTE, WIDTH

if TYPE_CHECKING:
    import pandas as pd

PANELS = {1: WIDTH, 2: 310, 3: 205}
"""How wide a panel is beside so many."""
DASHES = ([1, 0], [5, 4])
"""Of the first line of a panel, and of the second."""


def by_layer(
    frame: "pd.DataFrame",
    title: str,
    *,
    panel: str | None = None,
    line: str | None = None,
    within: tuple[float, float] | None = None,
    also: tuple[str, ...] = (),
) -> Chart | None:
    """Lines of `value` by layer, with a band where there are `low` and `high`, in the order of the table.

    Colours and shapes tell the runs apart, or the lines where there is one run; dashes the lines of a panel. `also`: further
    columns of the tooltip.
    """
    import altair as alt

    if frame.empty:
        return None
    several = len(runs_of(frame)) > 1
    names = [name for name in ("run" if several else None, panel, line, "layer", "value", *also) if name]
    colour, shape = told_apart(frame, "run" if several else line)
    scale = alt.Scale(domain=list(within)) if within else alt.Undefined
    dashed = frame[line] != frame[line].iloc[0] if line and panel and not several else None
    base = alt.Chart(frame if dashed is None else frame.assign(dashed=dashed)).encode(
        alt.X("layer:O", title="layer").axis(labelAngle=0, labelOverlap=True),
        alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(**_grid(within))),
        tooltip=[_told(name, frame) for name in names],
        detail=line or alt.Undefined,
        **colour,
    )
    layers = [
        *([base.mark_area(opacity=0.15).encode(alt.Y("low:Q"), alt.Y2("high:Q"))] if "low" in frame else []),
        base.mark_line().encode(**(_dashes(frame, line, several) if line and panel else {})),
        base.mark_point(aria=False, filled=True, size=40, opacity=1).encode(**shape),
    ]
    return _in_panels(alt.layer(*layers), panel, [] if panel is None else list(frame[panel].unique()))


def told_apart(frame: "pd.DataFrame", column: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Colour and shape by the names of a column, in the order of the table; one colour alone where there is no column."""
    import altair as alt

    if column is None:
        return {"color": alt.value(PALETTE[0])}, {}
    channel = _category(frame, column)
    return {"color": alt.Color(**channel)}, {"shape": alt.Shape(**channel)}


def _category(frame: "pd.DataFrame", column: str, **scale: Any) -> dict[str, Any]:
    """A channel with its legend below the chart. Legends of one domain are drawn as one."""
    import altair as alt

    names = list(frame[column].unique())
    columns = 1 if column in ("run", "group") else 6 if max(map(len, names)) < 16 else 3
    legend = alt.Legend(orient="bottom", direction="vertical", columns=columns, symbolOpacity=1, labelLimit=400)
    return {"shorthand": f"{column}:N", "title": None, "scale": alt.Scale(domain=names, **scale), "legend": legend}


def _dashes(frame: "pd.DataFrame", line: str, several: bool) -> dict[str, Any]:
    """Dashes by line. Where colours tell the lines apart a scale would dash the symbols of their legend, so there is none."""
    import altair as alt

    if several:
        return {"strokeDash": alt.StrokeDash(**_category(frame, line, range=list(DASHES)))}
    return {"strokeDash": alt.condition("datum.dashed", alt.value(DASHES[1]), alt.value(DASHES[0]))}


def _in_panels(chart: Chart, panel: str | None, names: list[str]) -> Chart:
    import altair as alt

    columns = {0: 1, 1: 1, 2: 2, 4: 2}.get(len(names), 3)
    sized = chart.properties(width=PANELS[columns], height=300 if columns == 1 else 180)
    return sized if panel is None else sized.facet(alt.Facet(f"{panel}:N", title=None, sort=names), columns=columns)


def _grid(within: tuple[float, float] | None) -> dict[str, Any]:
    """A stronger line at zero, where zero is in the midst."""
    if within is None or within[0] >= 0:
        return {}
    zero = "datum.value === 0"
    return {
        "gridWidth": {"condition": {"test": zero, "value": 2}, "value": 1},
        "gridColor": {"condition": {"test": zero, "value": FAINT}, "value": GRID},
    }


def _told(name: str, frame: "pd.DataFrame") -> Any:
    import altair as alt

    return alt.Tooltip(name, format=".3f") if frame[name].dtype.kind == "f" else alt.Tooltip(name)
