"""Cosines between the directions of classes, in the last layer and from layer to layer."""

from typing import TYPE_CHECKING

from conoscope.figures.base import DIGITS, Chart, Tables, figure, table_of
from conoscope.figures.classes import MOST, last_layer, panels_of
from conoscope.figures.lines import curve
from conoscope.figures.marks import LETTER, columns_of, renamed, shown
from conoscope.figures.panels import paneled
from conoscope.figures.theme import DIVERGING, PALETTE

if TYPE_CHECKING:
    import pandas as pd

NUMBERED, WHOLE = 8, 12
"""Classes up to which a cell has its number in it, and up to which both halves of the matrix are drawn."""
SIDE, CELL, BESIDE = 240, 60, 14
"""Pixels of a matrix and of its largest cells, and columns of the names beside it."""


@figure("class_cones.between", question="classes")
def class_cosines(tables: Tables) -> Chart | None:
    """Cosines between the mean directions of each two classes, in the last layer.

    1: two classes share a direction; 0: their directions are orthogonal; -1: they are opposite. Of more than 12 classes one half
    of the matrix of hidden states is drawn, of more than 40 classes 40, evenly chosen in their order.
    """
    import altair as alt

    frame = table_of(tables, "class_cones.between")
    frame = last_layer(frame[frame["representative"] == "mean"])
    names = shown([*frame["class"], *frame["other_class"]], BESIDE)
    frame = panels_of(frame, min(SIDE, CELL * len(names)) // LETTER)
    if frame.empty:
        return None
    drawn, order = _matrix(renamed(frame, names, "class", "other_class"), list(names.values()))
    side = max(10, min(CELL, SIDE // len(order)))
    flat = max(map(columns_of, order)) * LETTER <= side
    size = min(12, side)
    base = alt.Chart(drawn).encode(
        alt.X("other:N", title=None, sort=order).axis(labelAngle=0 if flat else -90, labelFontSize=size),
        alt.Y("class:N", title=None, sort=order).axis(labelFontSize=size),
        tooltip=["class", alt.Tooltip("other", title="with"), alt.Tooltip("value:Q", title="cosine", format=".3f")],
    )
    colour = alt.Color("value:Q", title="cosine").scale(scheme=DIVERGING, domain=[-1, 1], domainMid=0)
    cells = base.mark_rect().encode(colour.legend(orient="bottom", gradientLength=180))
    chart = alt.layer(cells, _numbers(base)) if len(order) <= NUMBERED else cells
    columns = max(1, 620 // (side * len(order) + 20))
    return paneled(chart.properties(width=alt.Step(side), height=alt.Step(side)), list(drawn["panel"].unique()), columns=columns)


def _matrix(frame: "pd.DataFrame", classes: list[str]) -> tuple["pd.DataFrame", list[str]]:
    """A row for each cell, the diagonal with it, and the classes drawn."""
    import pandas as pd

    order = [classes[place * len(classes) // MOST] for place in range(MOST)] if len(classes) > MOST else classes
    if len(order) > WHOLE:
        frame = frame[frame["site"] == "hidden"]
    half = frame[["panel", "class", "other_class", "value"]].rename(columns={"other_class": "other"})
    there = {panel: dict.fromkeys([*part["class"], *part["other"]]) for panel, part in half.groupby("panel", sort=False)}
    itself = [{"panel": panel, "class": name, "other": name, "value": 1.0} for panel, names in there.items() for name in names]
    turned = half.rename(columns={"class": "other", "other": "class"})
    # Pairs are in the order of classes, so that the turned ones lie below the diagonal.
    cells = pd.concat([turned, pd.DataFrame(itself), *([half] if len(order) <= WHOLE else [])])
    return cells[cells["class"].isin(order) & cells["other"].isin(order)], order


def _numbers(base: Chart) -> Chart:
    """The number of a cell, dark on light cells and white on dark ones."""
    import altair as alt

    ink = alt.condition("abs(datum.value) > 0.6", alt.value("white"), alt.value("#1f2328"))
    return base.mark_text().encode(text=alt.Text("value:Q", format=".2f"), color=ink)


@figure("class_cones.between", question="classes")
def class_cosines_by_layer(tables: Tables) -> Chart | None:
    """Cosines between the mean directions of classes, by layer.

    How cones part from layer to layer: 1 where two classes share a direction, 0 where their directions are orthogonal, -1 where
    they are opposite. A line for each two classes; of more than seven pairs the line is the mean over pairs, and the band goes
    from the lowest to the highest. Where what is classified is one vector for all sentences, as [CLS] is in layer 0, it is 1.
    """
    frame = table_of(tables, "class_cones.between")
    frame = panels_of(frame[frame["representative"] == "mean"])
    names = shown([*frame["class"], *frame["other_class"]], 20)
    pairs = [f"{names[one]} – {names[other]}" for one, other in zip(frame["class"], frame["other_class"], strict=True)]
    if len(set(pairs)) <= len(PALETTE):
        return curve(tables, frame.assign(line=pairs), "cosine")
    groups = frame.groupby(["run", "panel", "layer"], sort=False)["value"]
    means = groups.agg(value="mean", low="min", high="max", pairs="count").reset_index().round(DIGITS)
    return curve(tables, means.assign(line="mean over pairs"), "cosine", pairs="pairs")
