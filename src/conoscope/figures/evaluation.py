"""Judged maps: how well they agree with what was marked, and how far the model relies on the words that they put first."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, noted, runs_of, table_of
from conoscope.figures.marks import AXIS, below, dashed, renamed, runs_shown, shown, told_apart

if TYPE_CHECKING:
    import pandas as pd

CHANCE = "random"
"""The map that the others must beat."""
AVERAGES = {"micro": "all words together", "macro": "mean over sentences"}
NUMBERS = ("value", "low", "high")
PANEL = 290


MARKS = {
    "interval": "The bars are 95 % intervals over resampled texts.",
    "chance": "The dashed line is the random map: a map whose bar crosses it cannot be told from chance.",
}


@figure("plausibility", question="words", marks=MARKS)
def plausibility(tables: Tables) -> Chart | None:
    """How well maps agree with the words that were marked.

    AUROC is the chance that a marked word has a higher score than another, 0.5 for scores at random; AUPRC, average precision,
    must be read against the share of marked words. To the right is better.
    """
    chart = dots(tables, "plausibility", {"auroc": "AUROC", "auprc": "AUPRC"})
    return None if chart is None else noted(chart, *_markers(tables))


@figure("faithfulness", question="words", marks=MARKS)
def faithfulness(tables: Tables) -> Chart | None:
    """How far the model relies on the words that a map puts first.

    Comprehensiveness: how far the predicted class's probability falls without these words; the higher, the more they were needed.
    Sufficiency: how far it falls when they alone are left; the lower, the more they are enough.
    """
    return dots(tables, "faithfulness", {name: name for name in ("comprehensiveness", "sufficiency")})


def _markers(tables: Tables) -> list[str]:
    """By whom the words were marked, where it is known; of several runs where it is the same for all."""
    runs = tables.get("runs")
    if runs is None or "marked_by" not in runs:
        return []
    grammar = runs["marked_by"][runs["run"].isin(table_of(tables, "plausibility")["run"])] == "grammar"
    if grammar.all():
        return ["The words were marked by the grammar that the corpus was made with, not by people."]
    return ["The words were marked by people."] if not grammar.any() else []


def dots(tables: Tables, name: str, metrics: Mapping[str, str]) -> Chart | None:
    """A dot with its interval for each map, a panel for each metric and average; of several runs one under another."""
    import altair as alt

    frame = _panelled(table_of(tables, name), metrics)
    if frame.empty:
        return None
    every = runs_shown(tables, frame)
    frame = renamed(frame, every, "run")
    runs, maps = runs_of(frame), list(frame["map"].unique())
    several = len(runs) > 1
    colour, shape = told_apart("run", runs, list(every.values()), **below(runs, 1))
    base = alt.Chart(frame).encode(
        alt.X("value:Q", title=None).scale(zero=False).axis(tickCount=5),
        tooltip=[*(["run"] if several else []), "map", "panel", *(alt.Tooltip(each, format=".3f") for each in NUMBERS), "n"],
        color=colour,
    )
    placed = base.encode(
        alt.Y("map:N", title=None, sort=maps).scale(paddingInner=0.3).axis(grid=True, domain=False, ticks=False),
        yOffset=alt.YOffset("run:N", sort=runs) if several else alt.Undefined,
    )
    random = base.transform_filter("datum.chance").mark_rule(style="chance")
    layers = [
        *([dashed(random, "random map")] if frame["chance"].any() else []),
        placed.mark_rule(strokeWidth=2, style="interval" if frame["low"].notna().any() else []).encode(
            alt.X("low:Q", title=None), alt.X2("high:Q")
        ),
        placed.mark_point(aria=False, filled=True, size=60, opacity=1).encode(shape),
    ]
    chart = alt.layer(*layers).properties(width=PANEL, height=len(maps) * (12 * len(runs) + 12))
    panels = alt.Facet("panel:N", title=None, sort=list(frame["panel"].unique()))
    return chart.facet(panels, columns=2).resolve_scale(x="independent")


def _panelled(frame: "pd.DataFrame", metrics: Mapping[str, str]) -> "pd.DataFrame":
    """The rows of the metrics, those of one average after those of the other; the random map is the last."""
    chosen = frame[frame["metric"].isin(list(metrics))]
    chosen = chosen.assign(chance=chosen["map"] == CHANCE, place=chosen["average"].map(list(AVERAGES).index))
    chosen = chosen.sort_values(["place", "chance"], kind="stable")
    several = chosen["average"].nunique() > 1
    panel = chosen["metric"].map(metrics) + (", " + chosen["average"].map(AVERAGES) if several else "")
    return renamed(chosen.assign(panel=panel), shown(chosen["map"], AXIS), "map")[
        ["run", "map", "panel", *NUMBERS, "n", "chance"]
    ]
