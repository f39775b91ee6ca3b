"""Curves: a number by layer, as lines with bands; of several runs side by side."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conoscope.figures.base import DIGITS, Chart, Tables, figure, name_of, table_of
from conoscope.figures.marks import shown, told_apart

if TYPE_CHECKING:
    import pandas as pd

NORMAL = 1.96
"""Standard errors on each side of a 95 % interval."""
SITES = {
    "hidden": "hidden states",
    "input": "layer input",
    "context": "heads",
    "output": "attention output",
    "query": "queries",
    "key": "keys",
    "value": "values",
}
"""Sites as they are named in figures, in that order."""
ROWS = {"all": "all tokens", "cls": "classifying token", "cls_to_others": "the same, to others"}
WORDS = {"self_sim": "a word in its places", "intra_sim": "a sentence with its mean", "max_explained_variance": "one direction"}
WIDE, NARROW = (460, 260), (300, 170)
"""Width and height of one panel alone, and of one among several."""
SHORT, RUN = 24, 60
"""Characters of a name that fits beside a chart, and of the name of a run, below one."""
BELOW: dict[str, Any] = {"orient": "bottom", "direction": "vertical", "labelLimit": 600}
"""A legend below the chart."""


def curve(frame: "pd.DataFrame", title: str, within: tuple[float, float] = (0, 1), **told: str) -> Chart | None:
    """Lines by layer; None where there are no rows.

    The frame has the columns `run`, `line` (what a line is of, as it is shown), `layer` and `value`. Where it has `low` and
    `high` they are a band, where it has `baseline` that is a thin dashed line. Of one run there is one panel and a colour for
    each line; of several a panel for each line and a colour for each run. With a column `panel` there is a panel for each of
    its names, whatever the runs, and a colour for each line.

    `title` names the vertical axis, which spans `within` at least. Tooltips hold further columns, given as `column="title"`.
    """
    if frame.empty:
        return None
    placed = _placed(frame)
    panels = list(placed["panel"].unique())
    alone = len(panels) == 1
    wanted = ["line", "layer", "value", "low", "high", "baseline", *told, *([] if alone else ["panel"])]
    placed = placed[[name for name in wanted if name in placed]].round(DIGITS)
    width, height = WIDE if alone else NARROW
    chart = _layered(placed, title, _span(placed, within), told).properties(width=width, height=height)
    return chart if alone else paneled(chart, panels)


def paneled(chart: Chart, panels: Sequence[str], column: str = "panel", columns: int = 2) -> Chart:
    """A panel for each name of a column, in that order; names may have several lines."""
    import altair as alt

    header = alt.Header(title=None, labelAnchor="start", labelAlign="left", labelExpr="split(datum.label, '\\n')")
    faceted = chart.facet(facet=alt.Facet(f"{column}:N", sort=list(panels), header=header), columns=columns, spacing=18)
    return faceted.resolve_axis(x="independent")


def lines_of(frame: "pd.DataFrame", column: str, names: Mapping[str, str]) -> "pd.DataFrame":
    """The rows that have a name, in that order, with what they are called in `line`."""
    order = {name: place for place, name in enumerate(names)}
    there = frame[frame[column].isin(list(names))]
    return there.assign(line=there[column].map(names)).sort_values(column, key=lambda found: found.map(order), kind="stable")


def with_interval(frame: "pd.DataFrame") -> "pd.DataFrame":
    """With `low` and `high`, the 95 % interval of each mean: value ± 1.96 sd / √n."""
    error = NORMAL * frame["sd"].astype(float) / frame["n"].astype(float) ** 0.5
    return frame.assign(low=frame["value"] - error, high=frame["value"] + error)


def over_heads(frame: "pd.DataFrame", *by: str) -> "pd.DataFrame":
    """Means over heads for each run and layer, the lowest and the highest head in `low` and `high`, and how many in `heads`.

    Rows of whole vectors are left out.
    """
    groups = frame[frame["head"].notna()].groupby(["run", *by, "layer"], sort=False)["value"]
    found: pd.DataFrame = groups.agg(value="mean", low="min", high="max", heads="count").reset_index()
    return found


def _placed(frame: "pd.DataFrame") -> "pd.DataFrame":
    """With the panel of each row."""
    runs = shown(frame["run"].unique(), RUN)
    if "panel" in frame or len(runs) == 1:
        return frame.assign(panel=frame.get("panel", ""))
    return frame.assign(panel=frame["line"], line=frame["run"].map(runs))


def _span(frame: "pd.DataFrame", within: tuple[float, float]) -> list[float]:
    """The axis: `within`, and as far as the numbers go beyond."""
    drawn = frame[[name for name in ("value", "low", "high", "baseline") if name in frame]]
    return [min(within[0], float(drawn.min().min())), max(within[1], float(drawn.max().max()))]


def _layered(frame: "pd.DataFrame", title: str, span: list[float], told: Mapping[str, str]) -> Chart:
    """Band, baseline, line and points over each other."""
    import altair as alt

    lines = list(frame["line"].unique())
    below = "panel" in frame or max(map(len, lines)) > SHORT
    colour, shape = told_apart("line", lines, **(BELOW if below else {}))
    layer = alt.X("layer:O", title="layer").axis(labelAngle=0, labelOverlap=True)
    scale = alt.Scale(domain=span, nice=True, zero=False)
    base = alt.Chart(frame).encode(layer, colour)
    value = alt.Y("value:Q", title=title, scale=scale)
    tips = [alt.Tooltip("line", title="of"), "layer", alt.Tooltip("value:Q", title=title, format=".3f")]
    parts = [base.mark_line().encode(value)]
    if "high" in frame and frame["high"].notna().any():
        band = base.encode(alt.Y("low:Q", title=title, scale=scale), alt.Y2("high:Q"))
        # A band of one layer has no width.
        parts[:0] = [band.mark_area(opacity=0.18), *([band.mark_rule(opacity=0.5)] if _lonely(frame) else [])]
        tips += [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("low", "high")]
    if "baseline" in frame:
        parts.append(base.mark_line(strokeDash=[4, 3], strokeWidth=1).encode(alt.Y("baseline:Q", scale=scale)))
        tips.append(alt.Tooltip("baseline:Q", format=".3f"))
    tips += [alt.Tooltip(name, title=said, format=_format(frame[name])) for name, said in told.items()]
    return alt.layer(*parts, base.mark_point(filled=True, size=45, opacity=1).encode(value, shape, tooltip=tips))


def _lonely(frame: "pd.DataFrame") -> bool:
    """Whether a line has one layer alone."""
    return bool((frame.groupby([name for name in ("panel", "line") if name in frame]).size() == 1).any())


def _format(column: "pd.Series[Any]") -> Any:
    import altair as alt

    return ".3f" if column.dtype.kind == "f" else alt.Undefined


@figure("sim", question="cones")
def sim(tables: Tables) -> Chart | None:
    """Mean cosine between the vectors of a sentence, by layer.

    Near 1 all vectors of a sentence point one way, in a narrow cone; near 0 they point anywhere. Layer 0 is the embedding.
    Dashed is the same of vectors of different sentences: where it is as high, there is one cone for all sentences. The band is
    the 95 % interval of the mean over sentences; for vectors measured by head alone, the line is the mean over heads and the
    band goes from the lowest head to the highest.
    """
    return curve(_sites(table_of(tables, "sim")), "SIM")


def _sites(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Whole vectors with their interval; of a site that has none, the mean over heads with lowest and highest."""
    import pandas as pd

    whole = with_interval(frame[frame["head"].isna()])
    there = set(zip(whole["run"], whole["site"], strict=True))
    heads = over_heads(frame, "site")
    alone = [pair not in there for pair in zip(heads["run"], heads["site"], strict=True)]
    return lines_of(pd.concat([whole, heads[alone]]) if any(alone) else whole, "site", SITES)


@figure("attention_entropy", question="heads")
def entropy(tables: Tables) -> Chart | None:
    """How widely attention is spread, by layer.

    The entropy of a row of attention weights, as a share of the largest that it can be: 1 is attention on all tokens alike, 0
    all on one. The line is the mean over heads, the band goes from the lowest head to the highest. The classifying token is
    [CLS], or the last token of a model without one; its row is shown whole, and without what it gives to itself.
    """
    frame = over_heads(table_of(tables, "attention_entropy"), "row")
    return curve(lines_of(frame, "row", ROWS), "entropy", heads="heads")


@figure("effective_rank", question="cones")
def effective_rank(tables: Tables) -> Chart | None:
    """Over how many directions the vectors of the whole corpus spread, as a share of their width, by layer.

    Near 1 all directions are in use alike; near 0 all vectors lie in a few. It is one number of all vectors, so it has no
    interval. Of queries, keys and values the line is the mean over heads, the band goes from the lowest head to the highest.
    With fewer vectors than 8 times the width it reads low.
    """
    frame = table_of(tables, "effective_rank")
    frame = frame.assign(value=frame["value"] / frame["width"])
    widths = frame.groupby(["run", "site", "layer"], as_index=False).agg(width=("width", "max"), vectors=("n", "min"))
    lines = _sites(frame.assign(sd=math.nan)).drop(columns=["width"], errors="ignore")
    lines = lines.merge(widths, on=["run", "site", "layer"])
    return curve(lines, "effective rank / width", width="width", vectors="vectors")


@figure("cone_index", question="cones")
def cone_index(tables: Tables) -> Chart | None:
    """How far the vectors of a sentence add up, at each stage of a layer.

    The length of the sum of a sentence's unit vectors, divided by how many they are: 1 where all point one way, about 1/√n
    for n random ones. The stages are what a layer reads, what its heads give, what attention adds, and what the layer leaves
    (hidden states). Of heads the line is the mean, the band goes from the lowest to the highest; the others have no interval.
    """
    frame = table_of(tables, "cone_index")
    return curve(_sites(frame.assign(value=frame["share"], sd=math.nan)), "cone index / n")


@figure("self_sim", question="cones")
def word_cones(tables: Tables) -> Chart | None:
    """How much of a word's vector is the word, and how much its sentence, by layer.

    A word in its places: mean cosine between the vectors of one word in different sentences; 1 would be a vector that no
    context changes. A sentence with its mean: mean cosine of a sentence's vectors with their mean. One direction: the share of
    a word's vectors that one direction explains. Dashed in the same colour is what random words have; only what is above it
    tells of the word or the sentence. The band is the 95 % interval of the mean over words, or over sentences.
    """
    import pandas as pd

    found = [table_of(tables, name).assign(of=name) for name in WORDS if name_of(tables, name)]
    frame = pd.concat([part[part["head"].isna() & (part["site"] == "hidden")] for part in found])
    return curve(lines_of(with_interval(frame), "of", WORDS), "cosine, or share", n="words or sentences")
