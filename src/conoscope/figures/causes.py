"""Causes: how the answer changes without each head, and what predicts it."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, runs_of, table_of
from conoscope.figures.heat import Numbers, heat
from conoscope.figures.marks import below, renamed, runs_shown, shown, told_apart

if TYPE_CHECKING:
    import pandas as pd

HOWS = {"zero": "set to zero", "mean": "set to their mean"}
PREDICTORS = {
    "estimate": "first-order estimate",
    "norm_words": "norm of what is mixed in from words",
    "weight_words": "attention weight on words",
}
"""What is drawn beside the effect of a head, where it is known."""
PANEL = 200
ABOVE = 36


@figure("ablation.heads", question="causes", marks={"head": "A cell is a head."})
def ablation(tables: Tables) -> Chart | None:
    """How the predicted class's logit changes without each head.

    A head's context is set to zero, or to its mean over all texts, at every token. Far below 0, the answer rests on the head; at
    0 it does not need it. Effects of single heads do not add up: heads may stand in for each other.
    """
    frame = table_of(tables, "ablation.heads", "layer", "head", "how", "value", "low", "high", "changed")
    frame = frame.rename(columns={"how": "panel"}).astype({"layer": int, "head": int})
    if frame.empty:
        return None
    within = min(0.0, float(frame["value"].min())), max(0.0, float(frame["value"].max()))
    ends = within if within[0] < within[1] else (-1.0, 0.0)
    return heat(frame, HOWS, Numbers("change of the logit", ends, more=("low", "high", "changed")))


@figure(
    "ablation.heads",
    question="causes",
    marks={"head": "A mark is a head.", "interval": "Bars are 95 % intervals of its effect over resampled texts."},
)
def head_effects(tables: Tables) -> Chart | None:
    """What predicts which heads the answer rests on.

    Upwards is the change of the predicted class's logit without the head. To the right is what is known without taking it away:
    the first-order estimate, gradient times the change of the head's context; how long the vectors are that it mixes in from
    words, and how much weight it gives to words, where heads were measured too.
    """
    import altair as alt

    frame = _panelled(table_of(tables, "ablation.heads"))
    if frame.empty:
        return None
    names = [name for name in HOWS.values() if name in set(frame["how"])]
    colour, shape = told_apart("how", names, list(HOWS.values()), **below(names))
    tips: list[Any] = [
        "panel",
        "how",
        "layer:O",
        "head:O",
        *(alt.Tooltip(f"{name}:Q", format=".3~f") for name in ("known", "value", "low", "high")),
    ]
    base = alt.Chart(frame).encode(alt.X("known:Q", title=None).scale(zero=False).axis(tickCount=4), colour, tooltip=tips)
    bars = base.mark_rule(opacity=0.4, aria=False, style="interval" if frame["low"].notna().any() else []).encode(
        alt.Y("low:Q", title="change of the logit").scale(zero=False), alt.Y2("high:Q")
    )
    marks = base.mark_point(filled=True, size=40, opacity=0.85, aria=False, style="head").encode(
        alt.Y("value:Q", title="change of the logit").scale(zero=False), shape
    )
    panels = alt.Facet("panel:N", title=None, sort=list(frame["panel"].unique()))
    chart = alt.layer(bars, marks).properties(width=PANEL, height=PANEL).facet(panels, columns=3)
    return chart.resolve_scale(x="independent")


def _panelled(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each head, way and predictor that is known, with its panel."""
    import pandas as pd

    parts = [
        frame.assign(known=frame[name], panel=words).dropna(subset="known")
        for name, words in PREDICTORS.items()
        if name in frame and frame[name].notna().any()
    ]
    columns = ["panel", "how", "layer", "head", "known", "value", "low", "high"]
    if not parts:
        return pd.DataFrame(columns=columns)
    drawn = pd.concat(parts, ignore_index=True)
    if len(runs_of(drawn)) > 1:
        drawn = renamed(drawn, runs_shown({}, drawn), "run")
        drawn = drawn.assign(panel=drawn["run"] + ", " + drawn["panel"])
    drawn = renamed(drawn, shown(drawn["panel"], ABOVE), "panel")
    return drawn.assign(how=drawn["how"].map(HOWS))[columns].astype({"layer": int, "head": int})
