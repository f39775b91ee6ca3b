"""Capacity: how many class directions fit."""

import json
from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, table_of
from conoscope.figures.classes import last_layer
from conoscope.figures.marks import below, runs_shown, ticks, told_apart
from conoscope.figures.theme import GREY

if TYPE_CHECKING:
    import pandas as pd

BOUNDS = {"simplex": ("the least that can be", [6, 4]), "random": ("random directions", [1, 3])}
"""What could be: how it is called, and how its line is dashed."""


LEAST = 3
"""Of fewer classes there is one number, which class-cosines shows."""


@figure(
    "capacity",
    question="classes",
    marks={
        "simplex": "Dashed is the least that so many directions allow: near it classes are as far apart as can be.",
        "random": "Dotted is what random directions give: near it classes are no nearer than by accident.",
    },
)
def capacity(tables: Tables) -> Chart | None:
    """Largest cosine between the directions of two classes, by the number of classes.

    Of hidden states in the last layer; for fewer classes than there are it is the mean over choices of so many. Near 1 two
    classes share a direction. Of three classes or more.
    """
    import altair as alt

    frame = table_of(tables, "capacity")
    frame = last_layer(frame[frame["site"] == "hidden"])
    frame = frame[frame.groupby("run")["classes"].transform("max") >= LEAST]
    if frame.empty:
        return None
    runs = runs_shown(tables, frame)
    there = [runs[run] for run in runs if run in set(frame["run"])]
    columns = ["run", "classes", "value", "mean", "simplex", "random", "width", "layer"]
    base = alt.Chart(frame.assign(run=frame["run"].map(runs))[columns]).encode(
        alt.X("classes:Q", title="number of classes")
        .scale(type="log", nice=False, padding=16)
        .axis(**ticks(_numbers(frame)), format="d", labelOverlap=True)
    )
    colour, shape = told_apart("run", there, list(runs.values()), **below(there, 1))
    value = alt.Y("value:Q", title="largest cosine").scale(domain=[-1, 1])
    numbers = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "mean", *BOUNDS)]
    lines = [base.mark_line().encode(value, colour), *(_bound(base, name) for name in BOUNDS)]
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        value, colour, shape, tooltip=[*(["run"] if len(there) > 1 else []), "classes", *numbers, "layer"]
    )
    return alt.layer(*lines, points).properties(width=460, height=300)


def _numbers(frame: "pd.DataFrame") -> list[int]:
    return sorted(int(number) for number in frame["classes"].unique())


def _bound(base: Chart, name: str) -> Chart:
    """A grey line with its own entry in the legend; the bounds are the same for runs of the same width."""
    import altair as alt

    names = [said for said, _ in BOUNDS.values()]
    scale = alt.Scale(domain=names, range=[dashes for _, dashes in BOUNDS.values()])
    legend = alt.Legend(title=None, symbolType="stroke", symbolStrokeColor=GREY, symbolSize=300, **below(names))
    line = base.transform_calculate(bound=json.dumps(BOUNDS[name][0])).mark_line(color=GREY, strokeWidth=1.5, style=name)
    return line.encode(alt.Y(f"{name}:Q"), alt.StrokeDash("bound:N", scale=scale, legend=legend), detail="run:N")
