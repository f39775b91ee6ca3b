"""Attribution: which heads, layers and words the difference between the two largest logits comes from."""

from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, runs_of, table_of
from conoscope.figures.heat import Numbers, heat
from conoscope.figures.marks import HEADER, below, renamed, shown, told_apart
from conoscope.figures.panels import paneled
from conoscope.figures.theme import WIDTH
from conoscope.figures.typesetting import NARROW
from conoscope.figures.words import MARKS, coloured

if TYPE_CHECKING:
    import pandas as pd

GROUPS = {
    "words": "words",
    "positions": "positions",
    "types": "types",
    "head": "heads",
    "forward": "feed-forward parts",
    "bias": "biases",
    "activation": "nonlinear functions at 0",
}
"""Parts in words, in the order of the tables."""
ENDS = "embeddings", "classifier"
"""What is before the first layer, and after the last."""
EVERY = "all"
"""The scores of a word by all parts together."""
LEAST = 0.1
"""What is nowhere so large beside the largest score of a text is not drawn."""


@figure("attribution", question="causes", marks={"head": "A cell is a head."})
def attribution(tables: Tables) -> Chart | None:
    """What each head adds to the answer.

    The mean over texts of what a head adds to the logit of the predicted class minus that of the next, along the direct path:
    what later layers make of it is theirs. Far above 0, the answer comes from the head; below 0, the head speaks for the next
    class.
    """
    frame = table_of(tables, "attribution", "part", "layer", "head", "value", "share", "sd", "size")
    frame = frame[frame["part"] == "head"].rename(columns={"part": "panel"}).astype({"layer": int, "head": int})
    if frame.empty:
        return None
    low, high = min(0.0, float(frame["value"].min())), max(0.0, float(frame["value"].max()))
    within = (low, high) if low < high else (0.0, 1.0)
    return heat(frame, {"head": "heads"}, Numbers("difference of logits", within, more=("share", "sd", "size")))


@figure("attribution", question="causes", marks={"part": "A bar is all parts of a kind in a layer together."})
def attribution_layers(tables: Tables) -> Chart | None:
    """What each layer adds to the answer.

    The mean over texts of what the heads, feed-forward parts and biases of each layer, the embeddings and the classifier add to
    the logit of the predicted class minus that of the next. All together add up to the mean difference; what is below 0 speaks
    for the next class.
    """
    import altair as alt

    frame = table_of(tables, "attribution", "part", "site", "layer", "value", exact=True)
    frame = frame[frame["part"].isin(GROUPS)]
    if frame.empty:
        return None
    frame = frame.assign(part=frame["part"].map(GROUPS), place=_places(frame))
    frame = frame.groupby(["run", "place", "part"], sort=False, as_index=False).agg(value=("value", "sum"))
    names = [name for name in GROUPS.values() if name in set(frame["part"])]
    order = [ENDS[0], *sorted((place for place in frame["place"].unique() if place not in ENDS), key=int), ENDS[1]]
    runs = shown(runs_of(frame), HEADER)
    drawn = renamed(frame, runs, "run") if len(runs) > 1 else frame.drop(columns="run")
    colour, _ = told_apart("part", names, list(GROUPS.values()), **below(names))
    bars = (
        alt.Chart(drawn.round(6))
        .mark_bar(aria=False, style="part")
        .encode(
            alt.X("value:Q", title="difference of logits").axis(tickCount=5),
            alt.Y("place:N", title="layer", sort=[place for place in order if place in set(frame["place"])]),
            colour,
            tooltip=["place", "part", alt.Tooltip("value:Q", format=".3~f")],
        )
    )
    if len(runs) == 1:
        return bars.properties(width=WIDTH - 140)
    return paneled(bars.properties(width=200), list(runs.values()), "run")


def _places(frame: "pd.DataFrame") -> "pd.Series[str]":
    """The layer of each row as text, and what is before the first and after the last."""
    layers = frame["layer"].astype("Int64").astype("string")
    return layers.mask(frame["layer"].isna(), ENDS[1]).mask((frame["layer"] == 0).fillna(False), ENDS[0]).astype(str)


def _narrow(tables: Tables) -> Chart | None:
    """The same for narrow pages: shorter lines."""
    return coloured(_scores(tables), NARROW)


@figure("attribution.words", question="causes", narrow=_narrow, marks={name: MARKS[name] for name in ("score", "against")})
def attribution_words(tables: Tables) -> Chart | None:
    """What each word adds to the answer.

    The first texts, each there with all parts together, then by kind of part: what the heads took from a word, and what its
    embedding adds itself. Kinds that nowhere add a tenth of what the strongest word adds are left out; feed-forward parts and
    biases belong to no word.
    """
    return coloured(_scores(tables))


def _scores(tables: Tables) -> Tables:
    """The words with their scores, one map for all parts together and one for each kind."""
    import pandas as pd

    frame = table_of(tables, "attribution.words").rename(columns={"part": "map"})
    keys = ["run", "example", "place", "word", "label", "predicted"]
    every = frame.groupby(keys, sort=False, dropna=False, as_index=False).agg(value=("value", "sum")).assign(map=EVERY)
    both = pd.concat([every, frame[[*keys, "map", "value"]]], ignore_index=True)
    text, size = [both["run"], both["example"]], both["value"].abs()
    largest = size.groupby([*text, both["map"]]).transform("max")
    strongest = size.where(both["map"] == EVERY).groupby(text).transform("max")
    return {"explanations": both[largest >= LEAST * strongest]}
