"""An ablation: how narrow the cones of each model are, and how often it is right."""

from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, runs_of, table_of
from conoscope.figures.marks import below, dashed, renamed, shown, told_apart
from conoscope.figures.theme import GREY

if TYPE_CHECKING:
    import pandas as pd

PANEL = 270
"""How wide a panel is: two stand beside each other."""
ABOVE = 36
"""Columns of a name above a panel."""


@figure(
    "study.cones",
    question="studies",
    marks={
        "model": "Each mark is one model, trained with a seed of its own; colour and shape are its condition.",
        "gate": "Claims are judged on the models at the right of the dashed line, which are right more often than the largest "
        "class by a margin.",
    },
)
def narrow_cones(tables: Tables) -> Chart | None:
    """How narrow the cones of models are, and how often they are right.

    Upwards is SIM of the values of the last layer: at 1 all values of a sentence point one way. To the right is accuracy on the
    same texts. Conditions whose marks lie apart decide whether cones are narrow; a condition that moves marks to the left has
    narrow cones at a price.
    """
    import altair as alt

    frame = _panelled(table_of(tables, "study.cones"))
    if frame.empty:
        return None
    names = list(frame["condition"].unique())
    colour, shape = told_apart("condition", names, **below(names))
    base = alt.Chart(frame)
    tips = ["condition", "panel", "seed", *(alt.Tooltip(name, format=".3f") for name in ("accuracy", "value"))]
    layers = [
        dashed(base.mark_rule(color=GREY, style="gate").encode(alt.X("max(gate):Q", title="accuracy")), "the gate"),
        base.mark_point(aria=False, filled=True, size=45, opacity=0.8, style="model").encode(
            alt.X("accuracy:Q", title="accuracy").scale(zero=False).axis(tickCount=5),
            alt.Y("value:Q", title="SIM of the last layer's values").scale(zero=False),
            colour,
            shape,
            tooltip=tips,
        ),
    ]
    panels = alt.Facet("panel:N", title=None, sort=list(frame["panel"].unique()))
    return alt.layer(*layers).properties(width=PANEL, height=PANEL).facet(panels, columns=2)


def _panelled(frame: "pd.DataFrame") -> "pd.DataFrame":
    """What is drawn: a panel for each number of layers, of each run where there are several."""
    count = frame["layers"].astype(int)
    panel = count.astype(str) + count.map(lambda layers: " layer" if layers == 1 else " layers")
    if len(runs_of(frame)) > 1:
        panel = frame["run"] + ", " + panel
    drawn = frame.assign(panel=panel, order=count).sort_values(["run", "order"], kind="stable")
    drawn = renamed(drawn, shown(drawn["panel"], ABOVE), "panel")
    drawn = renamed(drawn, shown(drawn["condition"], ABOVE), "condition")
    return drawn[["condition", "panel", "seed", "accuracy", "value", "gate"]]
