"""The plane: examples of each class where they lie, in two directions, layer by layer."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, name_of, runs_of, table_of
from conoscope.figures.marks import colours_of, cut, shapes_of, shown
from conoscope.figures.panels import paneled
from conoscope.figures.theme import GREY

if TYPE_CHECKING:
    import pandas as pd

PANELS, POINTS, MOST = 12, 600, 160
"""Panels and points in all, and the most points of a panel."""
CLASSES = 14
"""Classes that have a mark of their own: seven colours, twice."""
SIDE, COLUMNS = 160, 4
"""Pixels of a panel, and panels beside each other."""
NARROWEST = 22
"""Columns that fit above a panel, and in a legend of four beside each other."""
SIZE = 9 * math.pi
"""Of a mark: a circle of three pixels, which takes few digits to write."""
NONE = -1
"""The answer of a model that does not classify."""
OTHER = "other classes"
ANSWERS = {"right": 0.7, "wrong": 0.0}
"""How full the mark of an example is, by what the model answers."""


@figure("class_cones.plane", question="classes")
def class_plane(tables: Tables) -> Chart | None:
    """Where examples of each class lie, in the plane of the two directions along which they differ most, by layer.

    A mark is what the classifier reads of one example: colour and shape are its class, hollow where the model answers another.
    Where classes lie apart, the layer tells them in these two directions; where they do not, it may in others. Each panel has
    its own directions and scale; its header says how much of the variance they hold. At most 600 examples in 12 panels are
    drawn, evenly chosen; of more than 14 classes those with fewest examples share a grey mark.
    """
    return _plane(tables, "pca")


@figure("class_cones.plane", question="classes")
def class_plane_means(tables: Tables) -> Chart | None:
    """Where examples of each class lie, in the plane of the class means, by layer.

    As the plane of the directions along which examples differ most, but in the directions along which the means of their classes
    do; of two classes the second is that in which examples differ most across the first. It is the kindest view: directions are
    chosen by the labels, so that of few examples classes lie apart by accident too.
    """
    return _plane(tables, "means")


def _plane(tables: Tables, projection: str) -> Chart | None:
    import altair as alt

    frame = table_of(tables, "class_cones.plane")
    parts = _chosen(frame[(frame["projection"] == projection) & (frame["site"] == "hidden") & frame["second"].notna()])
    if not parts:
        return None
    drawn, names = _drawn(parts, _order(tables))
    points = alt.Chart(drawn).mark_point(size=SIZE, strokeWidth=1.3, aria=False)
    bare: dict[str, Any] = {"labels": False, "ticks": False, "grid": False}
    chart = points.encode(
        alt.X("x:Q", title=None).axis(**bare).scale(zero=False, padding=8),
        alt.Y("y:Q", title=None).axis(**bare).scale(zero=False, padding=8),
        *_marks(names),
        tooltip=["example", alt.Tooltip("gold", title="class"), alt.Tooltip("predicted", title="the model's answer")],
    )
    panels = list(parts)
    faceted = paneled(chart.properties(width=SIDE, height=SIDE), panels, columns=min(COLUMNS, len(panels)))
    return faceted.resolve_scale(x="independent", y="independent")


def _chosen(frame: "pd.DataFrame") -> dict[str, "pd.DataFrame"]:
    """Panels by their headers: layers evenly chosen, the last among them, with the first examples of each.

    The table has examples in the order of a hash: the first ones are no others than the rest.
    """
    runs = shown(runs_of(frame), NARROWEST)
    # So many that runs fill whole rows.
    most = next((count for count in (PANELS, COLUMNS, COLUMNS // 2) if count * len(runs) <= PANELS), 1)
    panels = [(run, layer) for run in runs for layer in _layers(frame[frame["run"] == run]["layer"], most)]
    found = {}
    for run, layer in panels:
        part = frame[(frame["run"] == run) & (frame["layer"] == layer)].head(min(MOST, POINTS // len(panels)))
        header = f"layer {layer} ({part['share'].iloc[0]:.0%})"
        found[f"{runs[run]}\n{header}" if len(runs) > 1 else header] = part
    return found


def _layers(layers: "pd.Series[Any]", most: int) -> list[int]:
    """Evenly chosen, the last among them."""
    there = sorted(map(int, layers.unique()))
    count = min(len(there), most)
    return sorted(there[-1 - place * len(there) // count] for place in range(count))


def _order(tables: Tables) -> list[Any]:
    """The classes as the model has them, so that a class has one colour in all figures."""
    return list(table_of(tables, "class_cones")["class"].unique()) if name_of(tables, "class_cones") else []


def _drawn(parts: Mapping[str, "pd.DataFrame"], order: list[Any]) -> tuple["pd.DataFrame", list[str]]:
    """A row for each example, and the classes that are told apart."""
    import pandas as pd

    frame = pd.concat([part.assign(panel=panel) for panel, part in parts.items()])
    names, answers = _classes(frame["gold"], order), {**shown(frame["predicted"]), NONE: "none"}
    rows = zip(frame["gold"], frame["predicted"], strict=True)
    drawn = pd.DataFrame(
        {
            "panel": frame["panel"],
            "x": [float(f"{value:.3g}") for value in frame["value"]],
            "y": [float(f"{value:.3g}") for value in frame["second"]],
            "gold": frame["gold"].map(names),
            "predicted": frame["predicted"].map(answers),
            "answer": ["right" if predicted in (NONE, gold) else "wrong" for gold, predicted in rows],
            "example": [cut(name, 64) for name in frame["example"]],
        }
    )
    return drawn, list(dict.fromkeys(names.values()))


def _classes(gold: "pd.Series[Any]", order: list[Any]) -> dict[Any, str]:
    """Each class as it is shown, in that order; of many, those with fewest examples under one name at the end."""
    counts = gold.value_counts()
    there = [name for name in order if name in counts] + sorted(set(counts.index) - set(order), key=str)
    kept = set(counts.index[: len(there) if len(there) <= CLASSES else CLASSES - 1])
    names = shown(sorted(there, key=lambda name: name not in kept), NARROWEST)
    return {name: short if name in kept else OTHER for name, short in names.items()}


def _marks(names: list[str]) -> list[Any]:
    """Colour and shape by class, fullness by the model's answer."""
    import altair as alt

    colours = [GREY if name == OTHER else colour for name, colour in zip(names, colours_of(names), strict=True)]
    scale = alt.Scale(domain=names, range=colours)
    legend = alt.Legend(title=None, orient="bottom", columns=4, symbolLimit=CLASSES, symbolOpacity=1)
    full = alt.Scale(domain=list(ANSWERS), range=list(ANSWERS.values()))
    return [
        alt.Stroke("gold:N", scale=scale, legend=legend),
        alt.Fill("gold:N", scale=scale, legend=legend),
        alt.Shape("gold:N", legend=legend).scale(domain=names, range=shapes_of(names)),
        alt.FillOpacity("answer:O", scale=full, legend=None),
    ]
