"""Patching: how often, and how far, the answer moves with what another text left."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, noted, runs_of, table_of
from conoscope.figures.heat import ramp
from conoscope.figures.marks import AXIS, below, cut, renamed, runs_shown, shown, told_apart
from conoscope.figures.theme import SEQUENTIAL

if TYPE_CHECKING:
    import pandas as pd

PLACES = {"differing": "differing tokens", "classifying": "classifying token", "other": "each other token"}
"""Kinds of places in words, in that order."""
PANEL, HIGH = 260, 220
CELL, MOST = 22, 24
"""How high a row of tokens is, and how many rows are drawn."""


@figure(
    "patch",
    question="causes",
    marks={
        "line": "Where the lines cross, what decides has moved to the token that is classified from.",
        "interval": "Bands are 95 % intervals over resampled pairs.",
    },
)
def patch(tables: Tables) -> Chart | None:
    """How often the answer moves with what another text left.

    Of each pair one text runs with the vectors that the other left in a layer, at the tokens that differ (all together), at the
    token that is classified from, or at each other token alone. At 1 the answer of every pair becomes that of the other text, at
    0 of none.
    """
    import altair as alt

    frame = table_of(tables, "patch")
    whole = frame["head"].isna() if "head" in frame else True
    frame = frame[(frame["what"] == "flipped") & frame["tokens"].isin(list(PLACES)) & whole]
    if frame.empty:
        return None
    frame = renamed(frame, runs_shown(tables, frame, PANEL // 7), "run").assign(line=frame["tokens"].map(PLACES))
    names = [name for name in PLACES.values() if name in set(frame["line"])]
    colour, shape = told_apart("line", names, list(PLACES.values()), **below(names))
    drawn = frame[["run", "line", "layer", "value", "low", "high", "n"]].astype({"layer": int})
    tips: list[Any] = ["line", "layer:O", *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high")), "n"]
    base = alt.Chart(drawn).encode(alt.X("layer:O", title="layer").axis(labelAngle=0), colour)
    scale, title = alt.Scale(domain=[0, 1]), "share of pairs whose answer moves"
    band = base.mark_area(opacity=0.18, aria=False, style="interval" if drawn["low"].notna().any() else []).encode(
        alt.Y("low:Q", title=title, scale=scale), alt.Y2("high:Q")
    )
    line = base.mark_line(aria=False, style="line").encode(alt.Y("value:Q", title=title, scale=scale))
    points = base.mark_point(filled=True, size=45, opacity=1, aria=False).encode(
        alt.Y("value:Q", title=title, scale=scale), shape, tooltip=tips
    )
    chart = alt.layer(band, line, points).properties(width=PANEL, height=HIGH)
    if len(runs_of(drawn)) == 1:
        return chart
    return chart.facet(alt.Facet("run:N", title=None, sort=runs_of(drawn)), columns=2)


@figure("patch.tokens", question="causes", marks={"place": "A cell is one vector that is moved."})
def patch_tokens(tables: Tables) -> Chart | None:
    """How far the answer moves with the vector of each place.

    The first pair: one text runs with one vector that the other left, of a layer and a place. At 0 the logits stay, at 1 those of
    the two classes differ as in the other text; below 0 they move away from it. Where the other text has another token it is in
    brackets.
    """
    import altair as alt

    frame = table_of(tables, "patch.tokens")
    frame = frame[frame["head"].isna()] if "head" in frame else frame
    if frame.empty:
        return None
    parts = [_first(frame[frame["run"] == run]) for run in runs_of(frame)]
    runs = runs_shown(tables, frame)
    charts = []
    for run, part in zip(runs_of(frame), parts, strict=True):
        names = shown(part["word"], AXIS)
        drawn = part.assign(word=part["word"].map(names), value=part["value"].clip(-1, 2))
        drawn = drawn[["layer", "word", "value", "probability", "flipped"]]
        color = alt.Color("value:Q", title="moved").scale(scheme=SEQUENTIAL, domain=[0, 1], clamp=True)
        order = list(drawn["word"].unique())
        tips: list[Any] = [
            "word",
            "layer:O",
            alt.Tooltip("value:Q", format=".2f"),
            alt.Tooltip("probability:Q", format=".3f"),
            "flipped:N",
        ]
        cells = (
            alt.Chart(drawn)
            .mark_rect(aria=False, style="place")
            .encode(
                alt.X("layer:O", title="layer").axis(labelAngle=0),
                alt.Y("word:N", title=None, sort=order),
                ramp(color, tickCount=3),
                tooltip=tips,
            )
        )
        title = [cut(runs[run], PANEL // 7)] if len(parts) > 1 else []
        charts.append(cells.properties(width=PANEL, height=CELL * len(order), **({"title": title} if title else {})))
    left = any(frame[frame["run"] == run]["place"].max() > MOST for run in runs_of(frame))
    return noted(alt.concat(*charts, columns=2), f"The first {MOST} tokens are drawn." if left else "")


def _first(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The first places of the first pair, each with its number and its token, and the other text's where that is another."""
    pair = frame[(frame["pair"] == frame["pair"].min()) & (frame["place"] <= MOST)].sort_values(["place", "layer"])
    same = pair["source"] == pair["target"]
    word = pair["place"].astype(str) + " " + pair["target"].astype(str)
    found: pd.DataFrame = pair.assign(
        word=word.where(same, word + " (" + pair["source"].astype(str) + ")"), layer=pair["layer"].astype(int)
    )
    return found
