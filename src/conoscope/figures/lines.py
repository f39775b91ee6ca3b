"""Lines by layer, with bands and baselines; of several runs side by side."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from conoscope.figures.base import NORMAL, Chart, Tables, rounded
from conoscope.figures.marks import AXIS, below, columns_of, dashed, runs_shown, told_apart
from conoscope.figures.panels import NARROW, WIDE, paneled
from conoscope.figures.theme import FAINT, GRID

if TYPE_CHECKING:
    import pandas as pd


class Legends(NamedTuple):
    """What colours tell apart where they are of runs, and how the dashed baseline is called."""

    runs: Sequence[str]
    baseline: str


TOLD = ".5~g"
"""Numbers on hovering: what differs in the fifth digit, as cosines near 1 do, is told apart."""
DASHES = ([1, 0], [5, 4])
"""Of the first line of a panel, and of the second."""


def curve(
    tables: Tables,
    frame: "pd.DataFrame",
    title: str,
    within: tuple[float, float] = (0, 1),
    *,
    baseline: str = "baseline",
    **told: str,
) -> Chart | None:
    """Lines by layer; None where there are no rows.

    The frame has the columns `run`, `line` (what a line is of, as it is shown), `layer` and `value`. Where it has `low` and
    `high` they are a band, whose styles are what `spread` says of these rows; where it has `baseline` that is a thin dashed
    line, which the legend calls as the argument says. Of one run there is one panel and a colour for
    each line; of several a panel for each line and a colour for each run. With a column `panel` there is a panel for each of
    its names, whatever the runs, and a colour for each line; with `dash` instead of `line` colours tell the runs apart where
    there are several, and the second name of `dash` is dashed.

    `title` names the vertical axis, which spans `within` at least. Tooltips hold further columns, given as `column="title"`.
    """
    # A panel of rows that have no number would be empty.
    frame = frame.dropna(subset="value")
    if frame.empty:
        return None
    runs = runs_shown(tables, frame)
    placed, by_run = _placed(frame, runs)
    panels = list(placed["panel"].unique())
    alone = len(panels) == 1
    numbers = ("value", "low", "high", "spread", "baseline")
    wanted = ["line", "dash", "dashed", "layer", *numbers, *told, *([] if alone else ["panel"])]
    placed = rounded(placed[[name for name in wanted if name in placed]])
    width, height = WIDE if alone else NARROW
    spans = _span(placed, within)
    chart = _layered(placed, title, spans, told, Legends(list(runs.values()) if by_run else (), baseline))
    sized = chart.properties(width=width, height=height)
    return sized if alone else paneled(sized, panels)


def lines_of(frame: "pd.DataFrame", column: str, names: Mapping[str, str]) -> "pd.DataFrame":
    """The rows that have a name, in that order, with what they are called in `line`."""
    order = {name: place for place, name in enumerate(names)}
    there = frame[frame[column].isin(list(names))]
    return there.assign(line=there[column].map(names)).sort_values(column, key=lambda found: found.map(order), kind="stable")


def with_interval(frame: "pd.DataFrame") -> "pd.DataFrame":
    """With `low` and `high`, the 95 % interval of each mean: value ± 1.96 sd / √n."""
    error = NORMAL * frame["sd"].astype(float) / frame["n"].astype(float) ** 0.5
    return frame.assign(low=frame["value"] - error, high=frame["value"] + error, spread="interval")


def over_heads(frame: "pd.DataFrame", *by: str) -> "pd.DataFrame":
    """Means over heads for each run and layer, the lowest and the highest head in `low` and `high`, and how many in `heads`.

    Rows of whole vectors are left out; one head alone has neither lowest nor highest.
    """
    groups = frame[frame["head"].notna()].groupby(["run", *by, "layer"], sort=False)["value"]
    found: pd.DataFrame = groups.agg(value="mean", low="min", high="max", heads="count").reset_index()
    several = found["heads"] > 1
    return found.assign(low=found["low"].where(several), high=found["high"].where(several), spread="heads")


def _placed(frame: "pd.DataFrame", runs: Mapping[str, str]) -> tuple["pd.DataFrame", bool]:
    """With the panel and the line of each row; and whether lines are of runs."""
    several = frame["run"].nunique() > 1
    named = frame["run"].map(runs)
    if "dash" in frame:
        if several:
            return frame.assign(line=named), True
        # A scale of dashes would dash the symbols of the legend as well, which colours tell apart already.
        second = frame["dash"] != frame["dash"].iloc[0]
        named = frame["dash"].where(~second, frame["dash"] + " (dashed)")
        return frame.assign(line=named, dashed=second).drop(columns="dash"), False
    if "panel" in frame or not several:
        return frame.assign(panel=frame.get("panel", "")), False
    return frame.assign(panel=frame["line"], line=named), True


def _span(frame: "pd.DataFrame", within: tuple[float, float]) -> list[float]:
    """The axis: `within`, and as far as the numbers go beyond."""
    drawn = frame[[name for name in ("value", "low", "high", "baseline") if name in frame]]
    return [min(within[0], float(drawn.min().min())), max(within[1], float(drawn.max().max()))]


def _layered(frame: "pd.DataFrame", title: str, span: list[float], told: Mapping[str, str], legends: Legends) -> Chart:
    """Band, baseline, line and points over each other; colours are of runs, or of lines where no runs are given."""
    import altair as alt

    colour, shape = _marks(frame, legends.runs)
    scale = alt.Scale(domain=span, nice=True, zero=False)
    if "baseline" in frame and _lonely(frame):
        frame = frame.assign(alone=_alone(frame))
    base = alt.Chart(frame).encode(alt.X("layer:O", title="layer").axis(labelAngle=0, labelOverlap=True), colour)
    if "dash" in frame:
        base = base.encode(detail="dash:N")
    value = alt.Y("value:Q", title=title, scale=scale).axis(**grid(span))
    tips = [alt.Tooltip("line", title="of"), *(["dash"] if "dash" in frame else []), "layer"]
    tips.append(alt.Tooltip("value:Q", title=title, format=TOLD))
    parts = [base.mark_line(aria=False, style=_styles(frame)).encode(value, **_dashes(frame))]
    if "high" in frame and frame["high"].notna().any():
        band = base.encode(alt.Y("low:Q", title=title, scale=scale), alt.Y2("high:Q"))
        # A band of one layer has no width.
        strokes = [band.mark_rule(opacity=0.5, aria=False)] if _lonely(frame) else []
        parts[:0] = [band.mark_area(opacity=0.18, aria=False, style=_spreads(frame)), *strokes]
        tips += [alt.Tooltip(f"{name}:Q", format=TOLD) for name in ("low", "high")]
    if "baseline" in frame and frame["baseline"].notna().any():
        thin = base.mark_line(strokeWidth=1, aria=False, style="baseline").encode(alt.Y("baseline:Q", scale=scale))
        parts.append(dashed(thin, legends.baseline))
        if _lonely(frame):
            # A line of one layer has no length: a dashed stroke stands for it.
            alone = base.transform_filter("datum.alone")
            stroke = alone.mark_point(shape="stroke", size=600, strokeWidth=1, aria=False, style="baseline")
            parts.append(dashed(stroke.encode(alt.Y("baseline:Q", scale=scale)), legends.baseline))
        tips.append(alt.Tooltip("baseline:Q", format=TOLD))
    tips += [alt.Tooltip(name, title=said, format=_format(frame[name])) for name, said in told.items()]
    points = base.mark_point(filled=True, size=45, opacity=1, aria=False)
    return alt.layer(*parts, points.encode(value, shape, tooltip=tips))


def _styles(frame: "pd.DataFrame") -> list[str]:
    """What the lines are; `dashed` where some are."""
    dashed = frame["dashed"].any() if "dashed" in frame else "dash" in frame and frame["dash"].nunique() > 1
    return ["line", "dashed"] if dashed else ["line"]


def _spreads(frame: "pd.DataFrame") -> list[str]:
    """What the band is, of those lines that have one."""
    return list(frame["spread"][frame["high"].notna()].unique()) if "spread" in frame else ["band"]


def _marks(frame: "pd.DataFrame", runs: Sequence[str]) -> list[Any]:
    """Colour and shape by line."""
    lines = [name for name in runs or frame["line"].unique() if name in set(frame["line"])]
    beside = "panel" not in frame and max(map(columns_of, lines)) <= AXIS
    return told_apart("line", lines, runs, **({} if beside else below(lines, 1 if runs else None)))


def _dashes(frame: "pd.DataFrame") -> dict[str, Any]:
    import altair as alt

    if "dashed" in frame:
        return {"strokeDash": alt.condition("datum.dashed", alt.value(DASHES[1]), alt.value(DASHES[0]))}
    if "dash" not in frame:
        return {}
    names = list(frame["dash"].unique())
    legend = alt.Legend(title=None, **below(names)) if len(names) > 1 else None
    return {"strokeDash": alt.StrokeDash("dash:N", legend=legend).scale(domain=names, range=list(DASHES))}


def grid(span: Sequence[float]) -> dict[str, Any]:
    """A stronger line at zero, where zero is in the midst."""
    if span[0] >= 0:
        return {}
    zero = "datum.value === 0"
    return {
        "gridWidth": {"condition": {"test": zero, "value": 2}, "value": 1},
        "gridColor": {"condition": {"test": zero, "value": FAINT}, "value": GRID},
    }


def _lonely(frame: "pd.DataFrame") -> bool:
    """Whether a line has one layer alone."""
    return bool(_alone(frame).any())


def _alone(frame: "pd.DataFrame") -> "pd.Series[bool]":
    """Which rows are the one layer of their line."""
    found: pd.Series[bool] = (
        frame.groupby([name for name in ("panel", "line", "dash") if name in frame])["layer"].transform("size") == 1
    )
    return found


def _format(column: "pd.Series[Any]") -> Any:
    import altair as alt

    return TOLD if column.dtype.kind == "f" else alt.Undefined
