"""Heads that a study shows: the maps of those most like each gate, and how long the vectors of one head are."""

from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, runs_of, table_of
from conoscope.figures.heat import ramp
from conoscope.figures.marks import SITES, below, renamed, shown, told_apart
from conoscope.figures.theme import SEQUENTIAL

if TYPE_CHECKING:
    import pandas as pd

SIDE, WIDE, HIGH = 150, 210, 150
"""Pixels of a map's side, and of a panel of lengths."""
ABOVE, BESIDE = 30, 20
"""Columns of a name above a panel of lengths, and along the side of a map."""


@figure(
    "study.head_maps",
    question="studies",
    marks={
        "cell": "Down is the token that looks, across the one that is looked at, each from the beginning of a text. A bright "
        "column is a directional gate, an even square an open one, a bright diagonal a contextual one.",
    },
)
def heads_as_gates(tables: Tables) -> Chart | None:
    """The maps of the heads most like each gate.

    For each model and gate, the map of the head with the highest score of that gate, on a grid, mean over seeds; it need not be
    one. The steps of colour are of square roots.
    """
    import altair as alt

    frame = _models(table_of(tables, "study.head_maps", "model", "gate", "query", "key", "value"), BESIDE)
    if frame.empty:
        return None
    size = int(frame["query"].max())
    frame = frame.astype({"query": int, "key": int})
    bare = alt.Axis(labels=False, ticks=False, domain=False)
    color = alt.Color("value:Q", title="share of attention").scale(type="sqrt", scheme=SEQUENTIAL, domain=[0, 1])
    cells = alt.Chart(frame).mark_rect(aria=False, style="cell").encode(
        alt.X("key:O", title=None, axis=bare),
        alt.Y("query:O", title=None, axis=bare),
        ramp(color, values=[0, 0.1, 0.5, 1]),
        tooltip=["model", "gate", "query:O", "key:O", alt.Tooltip("value:Q", format=".3f")],
    )  # fmt: skip
    side = size * max(4, SIDE // size)
    return cells.properties(width=side, height=side).facet(
        column=alt.Column("gate:N", title=None, sort=list(frame["gate"].unique())),
        row=alt.Row("model:N", title=None, sort=list(frame["model"].unique())),
    )


@figure("study.head_lengths", question="studies", marks={"share": "A line is the share of vectors whose length is in a bin."})
def lengths_in_a_head(tables: Tables) -> Chart | None:
    """How long the queries, keys and values of one head are.

    Lengths are on a logarithmic axis, in bins; there is a panel for each model. Means over seeds.
    """
    import altair as alt

    frame = _models(table_of(tables, "study.head_lengths", "model", "site", "low", "value"), ABOVE)
    frame = frame[frame["low"] > 0]
    if frame.empty:
        return None
    frame = frame.assign(vectors=frame["site"].map(lambda site: SITES.get(site, site)))[["model", "vectors", "low", "value"]]
    names = list(frame["vectors"].unique())
    colour, _ = told_apart("vectors", names, **below(names))
    lines = alt.Chart(frame).mark_line(interpolate="step-after", aria=False, style="share").encode(
        alt.X("low:Q", title="length").scale(type="log", nice=False).axis(tickCount=4),
        alt.Y("value:Q", title="share of vectors"),
        colour,
        tooltip=["model", "vectors", alt.Tooltip("low:Q", format=".3f"), alt.Tooltip("value:Q", format=".3f")],
    )  # fmt: skip
    panels = alt.Facet("model:N", title=None, sort=list(frame["model"].unique()))
    return lines.properties(width=WIDE, height=HIGH).facet(panels, columns=3)


def _models(frame: "pd.DataFrame", columns: int) -> "pd.DataFrame":
    """The models by names of at most so many columns; of several runs, with the run."""
    model = frame["model"].astype(str)
    model = frame["run"] + ", " + model if len(runs_of(frame)) > 1 else model
    frame = frame.assign(model=model)
    return renamed(frame, shown(frame["model"], columns), "model").drop(columns="run")
