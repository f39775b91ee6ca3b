"""Heads: a number of each head, or several, as maps of layers and heads."""

import math
from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, table_of
from conoscope.figures.heat import Numbers, heat
from conoscope.figures.marks import SITES, TOKENS, cut

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

VECTORS = {site: SITES[site] for site in ("query", "key", "value")}
ROWS = {"all": "all tokens", "cls": "[CLS] or last token"}
PLACES = {"self": "itself", "previous": "previous token", "next": "next token", "first": "first token"}
MAPS = {"query-key": "queries with keys", "value-output": "values with output"}
LEAST = 0.1
"""What no head gives so much weight to is not drawn."""
SEEN = 0.002
"""Shares that differ by less look the same."""


@figure("sim", question="cones", marks={"head": "A cell is a head."})
def sim_heads(tables: Tables) -> Chart | None:
    """Mean cosine between the queries, keys and values of a sentence, by head.

    Near 1 all its vectors point one way, in a narrow cone; near 0 they point anywhere. A head whose keys lie
    in a narrow cone can hardly tell tokens apart by direction, one whose values do adds nearly the same whatever it looks at.
    Of models with one head the curves tell as much.
    """
    frame = _of_heads(tables, "sim", "site")
    if frame["head"].nunique() < 2:
        return None
    return heat(frame, VECTORS, Numbers("SIM", (min(0.0, frame["value"].min()), 1.0)))


@figure("attention_entropy", question="heads", marks={"head": "A cell is a head."})
def entropy_heads(tables: Tables) -> Chart | None:
    """How evenly each head spreads its attention.

    Entropy of the attention weights divided by that of even ones: 1 says that a head looks at all tokens alike, 0 that each
    token looks at one alone. On one side the mean over all tokens that look, on the other [CLS], or the last token of a model
    without one.
    """
    frame = _of_heads(tables, "attention_entropy", "row")
    return heat(frame, ROWS, Numbers("entropy", (0.0, 1.0))) if frame["head"].nunique() > 1 else None


@figure("heads", question="heads", marks={"head": "A cell near 1 is a head that does little else."})
def looks(tables: Tables) -> Chart | None:
    """What each head looks at.

    The mean share of a token's attention that goes to itself, its neighbours, the first token and each kind of token. What no
    head gives a tenth of its weight to is left out, and where the first token is always [CLS], it is drawn once.
    """
    frame = _of_heads(tables, "heads", "what", "kind")
    frame = frame[frame["panel"].isin([*PLACES, "kind"])]
    words = {
        f"{what} {kind}": PLACES.get(what) or cut(TOKENS.get(kind, kind), 24)
        for what, kind in frame[["panel", "kind"]].drop_duplicates().itertuples(index=False)
    }
    frame = frame.assign(panel=frame["panel"] + " " + frame["kind"])
    return heat(frame, {name: words[name] for name in _telling(frame)}, Numbers("share of attention", (0.0, 1.0)))


@figure("directionality", question="heads", marks={"head": "A cell is a head."})
def directionality(tables: Tables) -> Chart | None:
    """How many directions each head reads and writes.

    The effective number of directions of a head's two maps, as a share of the head's width: by which queries look for keys
    (W_Q W_K), and by which values are moved to the output (W_V W_O). Near 1 a head uses its whole width alike; a low number says
    that a few directions do nearly all. The number itself is told on hovering.
    """
    frame = _of_heads(tables, "directionality", "map", "rank", "skew_share")
    frame = frame[frame["panel"].isin(MAPS)]
    if frame.empty:
        return None
    share = (frame["value"] / frame.groupby("run")["rank"].transform("max")).round(3)
    frame = frame.assign(directions=frame["value"], value=share)
    # In fifths, as the legend's numbers are: its lower end has one.
    within = (min(2, math.floor(5 * frame["value"].min())) / 5, 1.0)
    return heat(frame, MAPS, Numbers("share of the head's width", within, more=("directions", "rank", "skew_share")))


def _of_heads(tables: Tables, name: str, panel: str, *more: str) -> "pd.DataFrame":
    """The rows of single heads: run, panel, layer, head, value and what else is named."""
    frame = table_of(tables, name, panel, "layer", "head", "value", *more).dropna(subset="head")
    return frame.rename(columns={panel: "panel"}).astype({"layer": int, "head": int})


def _telling(frame: "pd.DataFrame") -> list[str]:
    """The panels that some head gives enough to, without those that look the same as one after them."""
    largest = frame.groupby("panel", sort=False)["value"].max()
    there = list(largest.index[largest >= LEAST]) or list(largest.index)
    values = {name: frame["value"][frame["panel"] == name].to_numpy(float) for name in there}
    return [name for place, name in enumerate(there) if not any(_alike(values[name], values[at]) for at in there[place + 1 :])]


def _alike(one: "np.ndarray", other: "np.ndarray") -> bool:
    """Whether no cell of one panel can be told from that of the other."""
    return one.shape == other.shape and bool((abs(one - other) < SEEN).all())
