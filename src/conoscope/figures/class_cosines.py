"""Angles between the mean directions of classes: as a matrix, and by layer."""

import math
from typing import TYPE_CHECKING

from conoscope.figures.base import DIGITS, Chart, Tables, figure, noted, rounded, table_of
from conoscope.figures.classes import MOST, last_layer, panels_of
from conoscope.figures.heat import DARK
from conoscope.figures.lines import curve
from conoscope.figures.marks import AXIS, LETTER, columns_of, renamed, shown
from conoscope.figures.panels import paneled
from conoscope.figures.theme import INK, PALETTE, SEQUENTIAL

if TYPE_CHECKING:
    import pandas as pd

NUMBERED, WHOLE = 8, 12
"""Classes up to which a cell has its number in it, and up to which both halves of the matrix are drawn."""
SIDE, CELL, BESIDE = 240, 60, 14
"""Pixels of a matrix and of its largest cells, and columns of the names beside several of them."""
TITLE = "angle, in degrees"


@figure("class_cones.between", question="classes", marks={"number": "Numbers in the cells are degrees."})
def class_cosines(tables: Tables) -> Chart | None:
    """Angles between the mean directions of each two classes, in the last layer.

    0 degrees: two classes share a direction; 90: their directions are orthogonal; 180: they are opposite. Colours go from 0 to
    the largest angle there is. Angles tell directions apart that all have a cosine of 1.00; cosines are told on hovering.
    """
    import altair as alt

    frame = _angles(tables)
    frame = last_layer(frame)
    every = dict.fromkeys([*frame["class"], *frame["other_class"]])
    names = shown(every, AXIS if len(every) > WHOLE else BESIDE)
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
        tooltip=[
            "class",
            alt.Tooltip("other", title="with"),
            alt.Tooltip("value:Q", title=TITLE, format=".3~f"),
            alt.Tooltip("cosine:Q", format=".5~f"),
        ],
    )
    largest = float(drawn["value"].max()) or 1.0
    colour = alt.Color("value:Q", title=TITLE).scale(scheme=SEQUENTIAL, domain=[0, largest])
    cells = base.mark_rect().encode(colour.legend(orient="bottom", gradientLength=180, tickCount=4))
    chart = alt.layer(cells, _numbers(base, largest)) if len(order) <= NUMBERED else cells
    columns = max(1, 620 // (side * len(order) + 20))
    sized = chart.properties(width=alt.Step(side), height=alt.Step(side))
    return noted(paneled(sized, list(drawn["panel"].unique()), columns=columns), *_left_out(len(names)))


def _left_out(classes: int) -> list[str]:
    """What is said of more classes than are drawn whole."""
    half = "One half of the matrix is drawn, and of one run that of hidden states alone." if classes > WHOLE else ""
    return [half, f"{MOST} of {classes} classes are drawn, evenly chosen in their order." if classes > MOST else ""]


def _angles(tables: Tables) -> "pd.DataFrame":
    """The rows of mean directions: the angle in degrees as `value`, and the cosine."""
    frame = table_of(tables, "class_cones.between", exact=True)
    frame = frame[frame["representative"] == "mean"]
    degrees = [math.degrees(math.acos(max(-1.0, min(1.0, value)))) for value in frame["value"]]
    return rounded(frame.assign(cosine=frame["value"], value=degrees))


def _matrix(frame: "pd.DataFrame", classes: list[str]) -> tuple["pd.DataFrame", list[str]]:
    """A row for each cell, the diagonal with it, and the classes drawn."""
    import pandas as pd

    order = [classes[place * len(classes) // MOST] for place in range(MOST)] if len(classes) > MOST else classes
    if len(order) > WHOLE:
        frame = frame[frame["site"] == "hidden"]
    half = frame[["panel", "class", "other_class", "value", "cosine"]].rename(columns={"other_class": "other"})
    there = {panel: dict.fromkeys([*part["class"], *part["other"]]) for panel, part in half.groupby("panel", sort=False)}
    same = {"value": 0.0, "cosine": 1.0}
    itself = [{"panel": panel, "class": name, "other": name, **same} for panel, names in there.items() for name in names]
    turned = half.rename(columns={"class": "other", "other": "class"})
    # Pairs are in the order of classes, so that the turned ones lie below the diagonal.
    cells = pd.concat([turned, pd.DataFrame(itself), *([half] if len(order) <= WHOLE else [])])
    return cells[cells["class"].isin(order) & cells["other"].isin(order)], order


def _numbers(base: Chart, largest: float) -> Chart:
    """The number of a cell, white on dark cells and dark on light ones; of small numbers two digits."""
    import altair as alt

    ink = alt.condition(f"datum.value < {DARK * largest}", alt.value("white"), alt.value(INK))
    said = "datum.value === 0 ? '0' : datum.value < 9.95 ? format(datum.value, '.2~r') : format(datum.value, '.0f')"
    return base.transform_calculate(said=said).mark_text(style="number").encode(text="said:N", color=ink)


@figure(
    "class_cones.between",
    question="classes",
    marks={
        "line": "A line for each two classes, or for the mean over all pairs.",
        "pairs": "The band goes from the two classes nearest to each other to the two farthest from each other.",
    },
)
def class_cosines_by_layer(tables: Tables) -> Chart | None:
    """Angles between the mean directions of classes, by layer.

    How cones part from layer to layer: 0 degrees where two classes share a direction, 90 where their directions are orthogonal,
    180 where they are opposite. Where the vector of a text is one for all texts, as [CLS] is in layer 0, it is 0.
    Cosines are told on hovering.
    """
    frame = panels_of(_angles(tables))
    names = shown([*frame["class"], *frame["other_class"]], 20)
    pairs = [f"{names[one]} – {names[other]}" for one, other in zip(frame["class"], frame["other_class"], strict=True)]
    if len(set(pairs)) <= len(PALETTE):
        return curve(tables, frame.assign(line=pairs), TITLE, (0, 1), cosine="cosine")
    groups = frame.groupby(["run", "panel", "layer"], sort=False)
    ends = groups["value"].agg(value="mean", low="min", high="max", pairs="count")
    means = ends.assign(cosine=groups["cosine"].mean(), spread="pairs").reset_index().round(DIGITS)
    return curve(tables, means.assign(line="mean over pairs"), TITLE, (0, 1), pairs="pairs", cosine="mean cosine")
