"""The nearest cone: what the nearest direction would answer, beside the model, chance and controls."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.base import DIGITS, NORMAL, Chart, Tables, figure, table_of
from conoscope.figures.classes import last_layer, panels_of
from conoscope.figures.marks import LETTER, below, ticks
from conoscope.figures.panels import paneled
from conoscope.figures.theme import GREY, PALETTE

if TYPE_CHECKING:
    import pandas as pd

PANEL, ROW = 165, 30
"""Pixels of a panel, and of a row."""
KINDS = {
    "first": "first right example",
    "mean": "mean",
    "held_out": "mean of the other half",
    "medoid": "middle example",
    "norm": "control: length alone",
    "shuffled": "control: labels permuted",
}
UPRIGHT = "M0,-1.3L0,1.3"
"""A shape: an upright stroke."""
PERMUTED = "permuted"
"""The control whose score is the median over permutations, with the smallest and the largest of them."""
MARKS = {
    "value": ("nearest cone, with its 95 % interval", PALETTE[0], "circle"),
    PERMUTED: ("the same of permuted labels, median and range", PALETTE[3], "square"),
    "agreement": ("answers as the model", PALETTE[1], "diamond"),
    "model": ("the model itself", PALETTE[2], UPRIGHT),
    "chance": ("largest class (chance)", GREY, UPRIGHT),
}
"""What is drawn of a row: how it is called, and its mark."""
LANES = {"value": -5, PERMUTED: -5, "agreement": 6, "model": 0, "chance": 0}
"""How far below the middle of its row a mark stands, in pixels: equal numbers are not printed over each other."""


@figure(
    "class_cones.nearest",
    question="classes",
    marks={
        "value": "The line through a circle is the 95 % interval.",
        "permuted": "Square and bar: the median score of labels dealt anew many times, from the smallest to the largest; how "
        "rarely they do as well is told on hovering.",
        "agreement": "The diamond is the share of examples that get the model's own answer.",
        "model": "The green stroke is the share that the model itself gets right.",
        "chance": "The grey stroke is the share of the largest class: always answering that class is right so often.",
    },
)
def nearest_cone(tables: Tables) -> Chart | None:
    """How well the nearest direction alone would classify.

    Each example is given the class whose direction is nearest; rows are ways to choose a class's direction, and controls. Far
    above the controls, direction tells the class; a control as high would say that lengths tell it too, or that labels which mean
    nothing do.
    """
    import altair as alt

    frame = panels_of(last_layer(table_of(tables, "class_cones.nearest")), PANEL // LETTER)
    if frame.empty:
        return None
    drawn = _marks_of(frame)
    there = {of: mark for of, mark in MARKS.items() if of in set(drawn["of"])}
    names, colours, shapes = (list(column) for column in zip(*there.values(), strict=True))
    legend = alt.Legend(title=None, **below(names))
    base = alt.Chart(drawn).encode(
        alt.Y("kind:N", title=None, sort=list(KINDS.values())),
        alt.Color("what:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
    )
    share, low = (_share(alt.X(f"{name}:Q")) for name in ("share", "low"))
    shape = alt.Shape("what:N", scale=alt.Scale(domain=names, range=shapes), legend=legend)
    layers: list[Chart] = []
    for of in reversed(there):
        here = base.transform_filter(f"datum.of === '{of}'")
        if drawn["low"][drawn["of"] == of].notna().any():
            bar = {"strokeWidth": 7, "opacity": 0.4} if of == PERMUTED else {"strokeWidth": 1}
            across = here.mark_rule(yOffset=LANES[of], aria=False, **bar)
            layers.append(across.encode(low, alt.X2("high:Q")))
        point = here.mark_point(size=60, strokeWidth=2, opacity=1, yOffset=LANES[of], style=of)
        layers.append(point.encode(share, shape, tooltip=_told(drawn, of)))
    return paneled(alt.layer(*layers).properties(width=PANEL, height=alt.Step(ROW)), list(drawn["panel"].unique()), columns=3)


def _share(channel: Any) -> Any:
    return channel.title("share of the examples").scale(domain=[0, 1]).axis(**ticks([0, 0.25, 0.5, 0.75, 1]), format=".2~f")


def _told(drawn: "pd.DataFrame", of: str) -> list[Any]:
    """What is told on hovering; of permuted labels how many they were, and how rarely they did as well."""
    import altair as alt

    bounds = ["share", *(name for name in ("low", "high") if drawn[name][drawn["of"] == of].notna().any())]
    told: list[Any] = [alt.Tooltip("what", title="share of"), alt.Tooltip("kind", title="direction")]
    told += [alt.Tooltip(f"{name}:Q", format=".3f") for name in bounds]
    if of == PERMUTED and "p" in drawn:
        told.append(alt.Tooltip("observed:Q", title="the same of the true labels", format=".3f"))
        told.append(alt.Tooltip("p:Q", title="p, of as high a share by permutation", format=".4f"))
        told.append("permutations:Q")
    return [*told, "n:Q"]


def _marks_of(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each mark: which it is, its share, and from where to where it goes; an interval stays within [0, 1]."""
    import pandas as pd

    kinds = frame["representative"].where(frame["control"] == "none", frame["control"]).map(KINDS)
    more = [name for name in ("p", "permutations", "observed") if name in frame]
    frame = frame.assign(kind=kinds, **{name: frame.get(name) for name in ("low", "high")})
    # Of permuted labels the score is a median, and to answer as the model would mean nothing.
    permuted = (frame["control"] == "shuffled").to_numpy()
    parts = []
    for of in MARKS:
        rows = frame[permuted if of == PERMUTED else ~permuted if of in ("value", "agreement") else slice(None)]
        share = rows["value" if of == PERMUTED else of].astype(float).to_numpy()
        error = (NORMAL * rows["sd"].astype(float) / rows["n"].astype(float) ** 0.5).to_numpy()
        ends = {name: (share + side * error).clip(0, 1) for name, side in (("low", -1), ("high", 1))} if of == "value" else {}
        kept = {
            name: rows[name].astype(float).to_numpy() if of == PERMUTED else ends.get(name, float("nan"))
            for name in ("low", "high")
        }
        parts.append(rows.assign(of=of, what=MARKS[of][0], share=share, **kept))
    long = pd.concat(parts).dropna(subset="share").round({"share": DIGITS, "low": DIGITS, "high": DIGITS})
    return long[["panel", "kind", "of", "what", "share", "low", "high", "n", *more]]
