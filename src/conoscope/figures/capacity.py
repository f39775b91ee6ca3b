"""Capacity: how many class directions fit."""

from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, table_of
from conoscope.figures.classes import last_layer
from conoscope.figures.marks import below, runs_shown, told_apart
from conoscope.figures.theme import GREY

if TYPE_CHECKING:
    import pandas as pd

BOUNDS = {"simplex": [6, 4], "random": [1, 3]}
"""How the lines of what could be are dashed."""


@figure("capacity", question="classes")
def capacity(tables: Tables) -> Chart | None:
    """Largest cosine between the directions of two classes, by the number of classes.

    Of hidden states in the last layer; for fewer classes than there are it is the mean over choices of so many. Grey and dashed
    is the least that so many directions allow, grey and dotted what random ones give. A line near the dashed one says that the
    classes are as far apart as they can be, one near the dotted one no nearer than by accident, one near 1 that two classes
    share a direction.
    """
    import altair as alt

    frame = table_of(tables, "capacity")
    frame = last_layer(frame[frame["site"] == "hidden"])
    if frame.empty:
        return None
    runs = runs_shown(tables, frame)
    there = [runs[run] for run in runs if run in set(frame["run"])]
    columns = ["run", "classes", "value", "mean", "simplex", "random", "width", "layer"]
    base = alt.Chart(frame.assign(run=frame["run"].map(runs))[columns]).encode(
        alt.X("classes:Q", title="number of classes").scale(type="log").axis(values=_ticks(frame), format="d", labelOverlap=True)
    )
    colour, shape = told_apart("run", there, list(runs.values()), **below(there, 1))
    value = alt.Y("value:Q", title="largest cosine").scale(domain=[-1, 1])
    numbers = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "mean", *BOUNDS)]
    lines = [base.mark_line().encode(value, colour), *(_bound(base, name) for name in BOUNDS)]
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        value, colour, shape, tooltip=[*(["run"] if len(there) > 1 else []), "classes", *numbers, "layer"]
    )
    return alt.layer(*lines, points).properties(width=460, height=300)


def _ticks(frame: "pd.DataFrame") -> list[int]:
    return sorted(int(number) for number in frame["classes"].unique())


def _bound(base: Chart, name: str) -> Chart:
    """A grey line, with strokes where the numbers are: of one number of classes there is no line."""
    import altair as alt

    strokes = {"shape": "stroke", "color": GREY, "filled": False, "size": 120, "opacity": 1}
    line = base.mark_line(strokeDash=BOUNDS[name], color=GREY, strokeWidth=1.5, point=strokes)
    return line.encode(alt.Y(f"{name}:Q"), detail="run:N")
