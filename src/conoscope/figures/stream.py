"""The stream: what each layer adds to the vectors that run through it."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, noted, rounded, runs_of, table_of
from conoscope.figures.lines import curve, lines_of, with_interval
from conoscope.figures.marks import HEADER, shown
from conoscope.figures.panels import NARROW, WIDE, paneled
from conoscope.figures.theme import PALETTE

if TYPE_CHECKING:
    import pandas as pd

SHARES = {"residual_share": "what was there", "attention_share": "attention", "forward_share": "feed-forward part"}
"""In that order from below."""
PATH = "own class minus other classes"
TURNS = {"cosine": "cosine of a token's vectors", "cka": "CKA of all tokens"}


@figure("stream", question="stream")
def stream(tables: Tables) -> Chart | None:
    """Shares of what was there and of each part that is added, in what a layer leaves.

    Lengths of the parts that a layer adds up, as shares of their sum, means over tokens. A small share of attention says
    that vectors run on nearly as they were. The parts may point against each other: the shares say how much is added, not how
    much is left of it.
    """
    import altair as alt

    frame = lines_of(table_of(tables, "stream"), "what", SHARES)
    if frame.empty:
        return None
    runs = shown(runs_of(frame), HEADER)
    names = [name for name in SHARES.values() if name in set(frame["line"])]
    place = frame["line"].map({name: number for number, name in enumerate(names)})
    drawn = frame.assign(place=place, run=frame["run"].map(runs))[["run", "layer", "line", "place", "value"]]
    width, height = WIDE if len(runs) == 1 else NARROW
    # The legend reads from above, as the bars do.
    colours = alt.Scale(domain=names[::-1], range=list(PALETTE[: len(names)])[::-1])
    bars = (
        alt.Chart(drawn)
        .mark_bar()
        .encode(
            alt.X("layer:O", title="layer").axis(labelAngle=0, labelOverlap=True),
            alt.Y("value:Q", title="share of the length").scale(domain=[0, 1]),
            alt.Color("line:N", title=None, scale=colours).legend(orient="right" if len(runs) == 1 else "bottom"),
            alt.Order("place:Q"),
            tooltip=[alt.Tooltip("line", title="part"), "layer", alt.Tooltip("value:Q", title="share", format=".3f")],
        )
        .properties(width=width, height=height)
    )
    return noted(bars if len(runs) == 1 else paneled(bars, list(runs.values()), "run"), _without_forward(frame, runs))


def _without_forward(frame: "pd.DataFrame", runs: Mapping[str, str]) -> str:
    """What is said of runs that have two parts alone."""
    forward = set(frame["run"][frame["what"] == "forward_share"])
    lacking = [name for run, name in runs.items() if run not in forward]
    if not lacking:
        return ""
    where = f" in {', '.join(lacking)}" if len(runs) > 1 else ""
    return f"No feed-forward part was found{where}: what was there and attention are all the parts."


@figure("stream", question="stream", marks={"interval": "The band is the 95 % interval of the mean over tokens."})
def layer_turns(tables: Tables) -> Chart | None:
    """How far each layer turns the vectors.

    Cosine of a token's vector before and after the layer, mean over tokens; and linear CKA, how alike the vectors of all tokens
    are as a whole before and after, whichever way they are turned together: one number, without an interval. Both are 1 where a
    layer changes nothing. High CKA with a low cosine: all vectors move alike, and stay as they were to each other.
    """
    frame = with_interval(table_of(tables, "stream"))
    frame = frame.assign(degrees=[_degrees(value) for value in frame["value"]])
    frame.loc[frame["what"] != "cosine", "degrees"] = math.nan
    return curve(tables, lines_of(frame, "what", TURNS), "cosine, CKA", degrees="as an angle, in degrees")


def _degrees(cosine: float) -> float:
    return round(math.degrees(math.acos(max(-1.0, min(1.0, cosine)))), 1)


@figure("stream", question="stream", marks={"interval": "The band is the 95 % interval of the mean over tokens."})
def kurtosis(tables: Tables) -> Chart | None:
    """Whether a few coordinates hold most of a vector's length, by layer.

    Excess kurtosis of the coordinates of hidden states, mean over tokens. Normal coordinates have 0; one coordinate that is far
    larger than the others gives nearly as much as there are coordinates. Such coordinates decide cosines.
    """
    frame = with_interval(table_of(tables, "stream"))
    return curve(tables, lines_of(frame, "what", {"kurtosis": "hidden states"}), "excess kurtosis", (0, 0), n="tokens")


@figure(
    "stream.path",
    question="classes",
    marks={"line": "Where the line leaves 0, layers begin to tell the classes along the directions of the last one."},
)
def class_path(tables: Tables) -> Chart | None:
    """How much nearer a text's vector is to the last layer's direction of its own class than to those of the others.

    Mean cosine of a text's vector, in each layer, with the mean direction that its class has in the last layer, minus
    the mean cosine with the directions of the other classes: what all classes share is out of it. Directions are taken from the
    other half of the corpus. Both cosines are told on hovering. No interval is known.
    """
    frame = table_of(tables, "stream.path", exact=True)
    both = (
        frame.pivot_table("value", ["run", "layer"], "towards", sort=False)
        .reindex(columns=["own", "other"])
        .dropna()
        .reset_index()
    )
    both = rounded(both.assign(value=both["own"] - both["other"], line=PATH))
    return curve(tables, both, "own minus other cosine", (0, 0), own="cosine, own class", other="cosine, other classes")
