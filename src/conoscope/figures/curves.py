"""Curves: what is one number for each layer and site."""

import math
from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, name_of, table_of
from conoscope.figures.lines import curve, lines_of, over_heads, with_interval
from conoscope.figures.marks import SITES

if TYPE_CHECKING:
    import pandas as pd

ROWS = {"all": "all tokens", "cls": "[CLS] or last token", "cls_to_others": "the same, to others"}
WORDS = {"self_sim": "a word in its places", "intra_sim": "a sentence with its mean", "max_explained_variance": "one direction"}


INTERVAL = "The band is the 95 % interval of the mean over sentences."
HEADS = (
    "Of vectors measured by head alone, the line is the mean over heads and the band goes from the lowest head to the highest."
)


@figure(
    "sim",
    question="cones",
    marks={
        "baseline": "Dashed is the same of vectors of different sentences: where it is as high, there is one cone for all.",
        "interval": INTERVAL,
        "heads": HEADS,
    },
)
def sim(tables: Tables) -> Chart | None:
    """Mean cosine between the vectors of a sentence, by layer.

    Near 1 all vectors of a sentence point one way, in a narrow cone; near 0 they point anywhere. Layer 0 is the embedding.
    """
    return curve(tables, _sites(table_of(tables, "sim")), "SIM", baseline="vectors of different sentences")


def _sites(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Whole vectors with their interval; of a site that has none, the mean over heads with lowest and highest."""
    import pandas as pd

    whole = with_interval(frame[frame["head"].isna()])
    there = set(zip(whole["run"], whole["site"], strict=True))
    heads = over_heads(frame, "site")
    alone = [pair not in there for pair in zip(heads["run"], heads["site"], strict=True)]
    return lines_of(pd.concat([whole, heads[alone]]) if any(alone) else whole, "site", SITES)


def without_repeated_input(frame: "pd.DataFrame", column: str = "value") -> "pd.DataFrame":
    """Without the rows of the site `input` that repeat the hidden states of the layer before."""
    left = _by_layer(frame[frame["head"].isna()], "hidden", column)
    repeats = [
        site == "input" and math.isclose(value, left.get((run, layer - 1), math.nan), rel_tol=1e-4)
        for run, site, layer, value in zip(frame["run"], frame["site"], frame["layer"], frame[column], strict=True)
    ]
    return frame[[not repeated for repeated in repeats]]


def _by_layer(frame: "pd.DataFrame", site: str, column: str) -> dict[tuple[str, int], float]:
    rows = frame[frame["site"] == site]
    keys = zip(map(str, rows["run"]), map(int, rows["layer"]), strict=True)
    return dict(zip(keys, map(float, rows[column]), strict=True))


@figure(
    "attention_entropy",
    question="heads",
    marks={"heads": "The line is the mean over heads, the band goes from the lowest head to the highest."},
)
def entropy(tables: Tables) -> Chart | None:
    """How widely attention is spread, by layer.

    The entropy of a row of attention weights, as a share of the largest that it can be: 1 is attention on all tokens alike, 0
    all on one. [CLS], or the last token of a model without one, is often what a text is classified from: its row is shown whole,
    and without what it gives to itself.
    """
    frame = over_heads(table_of(tables, "attention_entropy"), "row")
    return curve(tables, lines_of(frame, "row", ROWS), "entropy", heads="heads")


@figure("effective_rank", question="cones", marks={"heads": HEADS})
def effective_rank(tables: Tables) -> Chart | None:
    """Over how many directions the vectors of the whole corpus spread, as a share of their width, by layer.

    Near 1 all directions are in use alike; near 0 all vectors lie in a few. It is one number of all vectors, so it has no
    interval. With fewer vectors than 8 times the width it reads low.
    """
    frame = table_of(tables, "effective_rank")
    frame = frame.assign(value=frame["value"] / frame["width"])
    widths = frame.groupby(["run", "site", "layer"], as_index=False).agg(width=("width", "max"), vectors=("n", "min"))
    lines = _sites(frame.assign(sd=math.nan)).drop(columns=["width"], errors="ignore")
    lines = lines.merge(widths, on=["run", "site", "layer"])
    return curve(tables, lines, "effective rank / width", width="width", vectors="vectors")


@figure("cone_index", question="cones", marks={"heads": HEADS})
def cone_index(tables: Tables) -> Chart | None:
    """How far the vectors of a sentence add up, at each stage of a layer.

    The length of the sum of a sentence's unit vectors, divided by how many they are: 1 where all point one way, about 1/√n
    for n random ones. The stages are what heads give, what attention adds, and what the layer leaves (hidden states); what a
    layer reads is drawn where it is not the hidden states of the layer before. Whole vectors have no interval.
    """
    frame = without_repeated_input(table_of(tables, "cone_index"), "share")
    return curve(tables, _sites(frame.assign(value=frame["share"], sd=math.nan)), "cone index / n")


@figure(
    "self_sim",
    question="cones",
    marks={
        "baseline": "Dashed in the same colour is what random words have: only what is above tells of the word or the sentence.",
        "interval": "The band is the 95 % interval of the mean over words, or over sentences.",
    },
)
def word_cones(tables: Tables) -> Chart | None:
    """How much of a word's vector is the word, and how much its sentence, by layer.

    A word in its places: mean cosine between the vectors of one word in different sentences; 1 would be a vector that no
    context changes. A sentence with its mean: mean cosine of a sentence's vectors with their mean. One direction: the share of
    a word's vectors that one direction explains.
    """
    import pandas as pd

    found = [table_of(tables, name).assign(of=name) for name in WORDS if name_of(tables, name)]
    frame = pd.concat([part[part["head"].isna() & (part["site"] == "hidden")] for part in found])
    return curve(
        tables, lines_of(with_interval(frame), "of", WORDS), "cosine, or share", baseline="random words", n="words or sentences"
    )
