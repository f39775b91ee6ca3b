"""What is mixed in: attention weights beside the lengths of what they take, by layer and kind of token."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, noted, runs_of, table_of
from conoscope.figures.lines import curve, over_heads
from conoscope.figures.marks import HEADER, TOKENS, below, renamed, shown, ticks, told_apart
from conoscope.figures.panels import paneled
from conoscope.figures.theme import WIDTH

if TYPE_CHECKING:
    import pandas as pd

POINTS = 600
"""Points of a scatter, over all runs: as many as a page bears."""
TICKS = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1]
"""Of the weights' axis, which is of square roots: weights may be 0, and most are small."""
METHODS = {
    "attn_w": "weights",
    "attn_n": "lengths",
    "attnres_w": "weights, with residual",
    "attnres_n": "lengths, with residual",
    "attnresln_n": "lengths, with residual and normalisation",
}
"""What each method counts, from the least to the most."""
WEIGHT, NORM = "attention weight", "what is mixed in"


@figure(
    "norms",
    question="mixing",
    marks={
        "dashed": "The dashed line is the kind's share of the attention weights (mean over heads), the other its share of the "
        "lengths of the vectors that are mixed in: where the dashed line is far above, the weight is spent on short vectors."
    },
)
def weights_and_norms(tables: Tables) -> Chart | None:
    """Attention weight and what is mixed in, by kind of token.

    One panel for each kind of token, [CLS] and [SEP] being what begins and ends a text, whatever the model calls it. Weight that
    is spent on short vectors changes little; where both shares agree, weights tell what is mixed in.
    """
    import pandas as pd

    frame = _whole(table_of(tables, "norms"))
    parts = [frame.assign(dash=what, value=frame[column]) for what, column in ((NORM, "share"), (WEIGHT, "weight"))]
    return curve(tables, _panelled(pd.concat(parts)), "share")


@figure(
    "norms.tokens",
    question="mixing",
    marks={
        "pair": "Each point is one pair of tokens in one head: the weight α to the right, on a scale of square roots, and the "
        "length of the transformed vector f(x) upwards. Points to the right at the bottom are large weights on short vectors."
    },
)
def weight_norm_scatter(tables: Tables) -> Chart | None:
    """Attention weight against the length of the vector that it multiplies.

    A large weight on a short vector mixes in little. Pairs of tokens were drawn by hash, a few of each layer and kind of token.
    """
    import altair as alt

    frame = table_of(tables, "norms.tokens", "layer", "head", "kind", "value", "weight")
    if frame.empty:
        return None
    every, frame = len(frame), _thinned(_ordered(frame, "kind"))
    fewer = f"{len(frame)} of {every} sampled pairs are drawn, evenly chosen." if len(frame) < every else ""
    kinds = list(frame["kind"].unique())
    colour, shape = told_apart("kind", kinds, **below(kinds))
    weight = alt.X("weight:Q", title="attention weight α").scale(type="sqrt", domain=[0, 1]).axis(**ticks(TICKS), format="~g")
    runs = shown(runs_of(frame), HEADER)
    drawn = renamed(frame, runs, "run") if len(runs) > 1 else frame.drop(columns="run")
    base = alt.Chart(drawn).encode(weight, alt.Y("value:Q", title="length of f(x)"), colour, shape)
    numbers = [alt.Tooltip("weight", format=".3g", title="α"), alt.Tooltip("value", format=".3f", title="length of f(x)")]
    points = base.mark_point(filled=True, size=26, opacity=0.6, aria=False, style="pair").encode(
        tooltip=["kind", "layer", "head", *numbers]
    )
    if len(runs) == 1:
        return noted(points.properties(width=WIDTH, height=380), fewer)
    faceted = paneled(points.properties(width=300, height=240), list(runs.values()), "run")
    return noted(faceted.resolve_scale(y="independent"), fewer)


@figure(
    "norms.cancel_out",
    question="mixing",
    marks={
        "heads": "The line is the mean over heads, the band goes from the lowest head to the highest.",
        "dashed": "Dashed is the correlation of all heads together, which also tells whether heads with short vectors have large "
        "weights.",
    },
)
def cancel_out(tables: Tables) -> Chart | None:
    """Correlation of attention weights with the lengths of the vectors that they multiply.

    One panel for each kind of token, Spearman's correlation upwards. Below 0, large weights fall on short vectors: the two
    cancel out. Above 0, what gets much weight is long as well. Where all lengths of a kind are equal there is no correlation.
    """
    import pandas as pd

    frame = table_of(tables, "norms.cancel_out")
    heads = over_heads(frame, "kind").assign(dash="mean over heads")
    together = _whole(frame)[["run", "kind", "layer", "value"]].assign(dash="all heads together")
    parts = [heads, together] if (heads["heads"] > 1).any() else [together]
    return curve(tables, _panelled(pd.concat(parts)), "Spearman's correlation", (-1, 1))


@figure("mixing", question="mixing")
def mixing(tables: Tables) -> Chart | None:
    """How much of a token's new vector comes from other tokens, by what is counted.

    At 0 nothing comes from other tokens, at 0.5 as much comes as stays, at 1 nothing of the token stays. By attention weights
    alone, by the lengths of what they mix and, in models that have them, with what passes by on the residual and after the
    normalisation that follows: where these lie far apart, the simpler count misleads. Means over tokens of all kinds.
    """
    frame = table_of(tables, "mixing")
    frame = frame[frame["kind"] == "all"]
    frame = frame.rename(columns={"low": "smallest", "high": "largest"})
    frame = _ordered(frame.assign(line=frame["method"]), "line", METHODS)
    return curve(tables, frame, "mixing ratio", smallest="smallest", largest="largest")


@figure("mixing", question="mixing")
def mixing_by_kind(tables: Tables) -> Chart | None:
    """How much of a token's new vector comes from other tokens, by kind of token.

    Lengths with residual and normalisation, where they are found. A kind near 0 keeps what it was: such tokens
    pass through the layer nearly unchanged. A kind far above the others gathers what the rest of the text says.
    """
    frame = table_of(tables, "mixing")
    fullest = frame["method"].map(list(METHODS).index)
    frame = frame[fullest == fullest.groupby(frame["run"]).transform("max")].drop(columns=["low", "high"])
    frame = _ordered(frame.assign(line=frame["kind"], method=frame["method"].map(METHODS)), "line")
    return curve(tables, frame, "mixing ratio", (0, 0), sd="sd", method="method")


@figure("frequency", question="mixing")
def frequency(tables: Tables) -> Chart | None:
    """Correlation of a token's frequency rank with its length and with its weight.

    Spearman's correlation over tokens. Above 0, frequent tokens get short vectors (or little weight) and rare ones long vectors;
    at 0 frequency does not matter; below 0 it is the other way round. With and without special tokens; ranks are counted
    in the measured corpus, or come from a file.
    """
    frame = _whole(table_of(tables, "frequency"))
    named = {"norm": "with the length of f(x)", "weight": "with the attention weight"}
    counted = {"all": "all tokens", "content": "without special tokens"}
    ranks = frame["by"].map(
        lambda by: "" if frame["by"].nunique() < 2 else f", ranks of {'a file' if by == 'file' else 'the corpus'}"
    )
    frame = frame.assign(dash=frame["what"].map(named), panel=frame["tokens"].map(counted) + ranks)
    same = _same(frame)
    chart = curve(tables, frame[frame["tokens"] == "all"] if same else frame, "Spearman's correlation", (-1, 1))
    return noted(chart, "Special tokens make no difference here.") if same and chart is not None else chart


def _same(frame: "pd.DataFrame") -> bool:
    """Whether special tokens make no difference: two panels would be the same."""
    values = frame.pivot_table("value", ["run", "what", "by", "layer"], "tokens")
    return bool(len(values) and set(values) == {"all", "content"} and (values["all"] == values["content"]).all())


def _whole(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of layers, of all heads together."""
    return frame[frame["head"].isna() & frame["layer"].notna()]


def _panelled(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A panel for each kind of token."""
    return _ordered(frame.assign(panel=frame["kind"]), "panel")


def _ordered(frame: "pd.DataFrame", column: str, names: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """Rows in the order of those names, and under them; else in that of the kinds of tokens, a user's own after them."""
    from conoscope.kinds import KINDS

    order = [*(names or KINDS), *frame[column].unique()]
    frame = frame.sort_values(column, key=lambda found: found.map(order.index), kind="stable")
    return renamed(frame, names or shown(frame[column].unique(), HEADER, {**TOKENS, "all": "all tokens"}), column)


def _thinned(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Every so many rows, so that each layer and kind keeps its part."""
    return frame.iloc[:: -(-len(frame) // POINTS)]
