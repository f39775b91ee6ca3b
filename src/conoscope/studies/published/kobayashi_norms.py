"""Kobayashi et al. 2020 and 2021: attention weights and the vectors that they multiply, by kind of token, on Wikipedia."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Published, Study
from conoscope.studies.published.kobayashi_reading import read

if TYPE_CHECKING:
    import pandas as pd

BERT = "bert-base-uncased"
DISCOUNTED = ("cls", "sep", "stops")
PEAKS = {"cls": "early", "sep": "middle", "stops": "late"}
"""The third of the layers in which each kind of token has its most weight."""
MOST, CLEARLY, STRONG = 0.5, 0.5, 0.5
SEEDS = 10

# fmt: off
MEANS: Mapping[str, tuple[float, str]] = {
    "attn_w": (.9641, "N"), "attn_n": (.8528, "N"), "attnres_w": (.4821, "N"), "attnres_n": (.2225, "N"),
    "attnresln_n": (.1875, "N"), "expansion": (.877, "N"), "dispersion": (.22, "R"),
    "rho.norm": (.75, "S"), "rho.weight": (.06, "R"),
    "cancel.cls": (-.34, "R"), "cancel.sep": (-.69, "R"), "cancel.stops": (-.25, "R"), "cancel.other": (-.06, "R"),
}
"""Over all layers."""
BY_LAYER: Mapping[str, Sequence[float]] = {
    "attnresln_n": (.24, .20, .19, .21, .19, .20, .20, .20, .17, .19, .15, .11),
    "attn_n": (.91, .87, .85, .91, .90, .91, .91, .92, .89, .81, .71, .64),
    "attnres_n": (.28, .27, .25, .25, .24, .23, .22, .23, .20, .20, .17, .14),
    "expansion": (.901, .740, .632, .679, .911, .989, .919, .905, .948, .913, .932, 1.051),
    "weight.cls": (.05, .25, .235, .14, .03, .02, .015, .01, .01, .01, .02, .005),
    "weight.sep": (.03, .06, .08, .20, .48, .55, .535, .57, .575, .49, .065, .07),
    "weight.stops": (.07, .11, .08, .08, .05, .045, .045, .055, .05, .07, .51, .57),
}
"""In each layer; weights on kinds of token are of Clark et al. (2019), read off a figure."""
# fmt: on
BY_EYE = 0.02
DIFFERENCE = (-1.0, 1.0)
"""The range of correlations, and of differences of shares."""


def _published() -> Iterator[Published]:
    for quantity, (figure, tag) in MEANS.items():
        yield Published({"quantity": quantity}, figure, tag, model=BERT)
    for quantity, figures in BY_LAYER.items():
        by_eye = quantity.startswith("weight")
        # The paper has the expansion's mean, least and largest, to two digits; the layers are printed in a notebook, to three.
        origin = ("F", BY_EYE) if by_eye else ("N", 0.0005) if quantity == "expansion" else ("P", 0.005)
        if by_eye:
            yield Published({"quantity": quantity}, sum(figures) / len(figures), *origin, model=BERT)
        for layer, figure in enumerate(figures, 1):
            yield Published({"quantity": quantity, "layer": layer}, figure, *origin, model=BERT)


def _overall(rows: "pd.DataFrame", *quantities: str) -> "pd.DataFrame":
    return rows[rows["quantity"].isin(quantities) & rows["layer"].isna()]


def _pairs(rows: "pd.DataFrame", pairs: Mapping[str, tuple[str, str]]) -> "pd.DataFrame":
    """The first minus the second quantity over all layers, one case for each pair."""
    import pandas as pd

    from conoscope.studies.contrasts import difference

    sides = [(_overall(rows, more), _overall(rows, less), case) for case, (more, less) in pairs.items()]
    both = [difference(more.assign(case_of=case), less.assign(case_of=case), ("model", "case_of")) for more, less, case in sides]
    return pd.concat(both)


def _discounted(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _pairs(rows, {kind: (f"weight.{kind}", f"share.{kind}") for kind in DISCOUNTED})


def _beside_words(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The same, divided by the value of words: shares sum to one, so a lower share of [CLS] raises all others."""
    import pandas as pd

    scaled = []
    for what in ("weight", "share"):
        words = _overall(rows, f"{what}.other")[["model", "seed", "value"]]
        both = _overall(rows, *(f"{what}.{kind}" for kind in DISCOUNTED)).merge(
            words, on=["model", "seed"], suffixes=("", "_words")
        )
        scaled.append(both.assign(value=both["value"] / both["value_words"]))
    return _discounted(pd.concat(scaled))


def _short(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _pairs(rows, {kind: ("length.other", f"length.{kind}") for kind in DISCOUNTED})


def _mixed_less(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _pairs(rows, {"attention alone": ("attn_w", "attn_n"), "with residual": ("attnres_w", "attnres_n"),
                         "with residual and norm": ("attnres_w", "attnresln_n")})  # fmt: skip


def _cancelling(rows: "pd.DataFrame") -> "pd.DataFrame":
    from conoscope.studies.contrasts import cases

    chosen = _overall(rows, *(f"cancel.{kind}" for kind in DISCOUNTED))
    return cases(chosen.assign(value=-chosen["value"]), ("model", "quantity"))


def _rare(rows: "pd.DataFrame") -> "pd.DataFrame":
    from conoscope.studies.contrasts import cases

    return cases(_overall(rows, "rho.norm", "rho.norm.corpus"), ("model", "quantity"))


def _falling(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Spearman's correlation of the ratio and the layer, with its sign changed."""
    import pandas as pd

    from conoscope.studies.contrasts import correlation

    ratio = rows[(rows["quantity"] == "attnresln_n") & rows["layer"].notna()]
    depth = ratio.assign(quantity="height", value=-ratio["layer"])
    return correlation(pd.concat((ratio, depth)), "attnresln_n", "height", ("layer",), ("model",))


def _most(rows: "pd.DataFrame") -> "pd.DataFrame":
    from conoscope.studies.contrasts import cases

    return cases(_overall(rows, "share.other"), ("model",))


def _peaks(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The mean weight of each kind in its third of the layers, less that in the third of the other two where it has more."""
    import pandas as pd

    from conoscope.studies.contrasts import cases

    found = []
    for kind, third in PEAKS.items():
        here = rows[(rows["quantity"] == f"weight.{kind}") & rows["layer"].notna()]
        if len(thirds := _thirds(here)):
            others = thirds.drop(columns=third).max(axis=1)
            found.append((thirds[third] - others).reset_index(name="value").assign(where=f"{kind}, {third}"))
    return cases(pd.concat(found), ("model", "where")) if found else cases(rows.iloc[:0].assign(where=""), ("model", "where"))


def _thirds(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Means over the first, second and last third of the layers, one row per model and seed; no row for fewer than three."""
    last = rows.groupby("model")["layer"].transform("max")
    third = ((rows["layer"] - 1) * len(PEAKS) // last).map(dict(enumerate(PEAKS.values())))
    return rows.assign(third=third)[last >= len(PEAKS)].pivot_table(values="value", index=["model", "seed"], columns="third")


STUDY = Study(
    name="kobayashi-norms",
    title="Weights against norms: what attention mixes in, by kind of token",
    source="Kobayashi, Kuribayashi, Yokoi and Inui: Self-attention is not only a weight: analyzing BERT with vector norms (ACL "
    "Student Research Workshop 2020, slides); mixing ratios and most figures from their papers at EMNLP 2020 and 2021",
    conditions=(Condition({"model": "all-MiniLM-L6-v2"}, "wikitext", model="minilm", texts="wikitext:test", parts=SEEDS),),
    read=read,
    published=tuple(_published()),
    claims=(
        Claim(
            "peaks",
            "Weight leans to [CLS] in the first third of the layers, to [SEP] in the second, to full stops and commas in the "
            "last: each has more weight there, by layer, than in the two other thirds.",
            _peaks,
            within=DIFFERENCE,
        ),
        Claim(
            "discounted",
            "[CLS], [SEP], full stops and commas have less of what is mixed in than of weight.",
            _discounted,
            within=DIFFERENCE,
        ),
        Claim("beside-words", "So it is beside words: for each unit that words have of both.", _beside_words),
        Claim("most", "Most of what is mixed in is of the other tokens: more than half.", _most, MOST, within=(0, 1)),
        Claim("short", "‖f(x)‖ of these tokens is smaller than that of words.", _short),
        Claim(
            "cancel-out",
            "On these tokens weight and ‖f(x)‖ cancel out: minus their correlation is above 0.",
            _cancelling,
            within=DIFFERENCE,
        ),
        Claim(
            "frequency",
            "Frequent tokens have short f(x): frequency rank and ‖f(x)‖ correlate.",
            _rare,
            within=DIFFERENCE,
        ),
        Claim(
            "strong",
            "The correlation is strong: it is above .5 (the bound is ours), published .75.",
            _rare,
            STRONG,
            within=DIFFERENCE,
        ),
        Claim(
            "mixing",
            "By norms less is mixed in than by weights: attention alone, with residual, with both.",
            _mixed_less,
            within=DIFFERENCE,
        ),
        Claim(
            "depth",
            f"With both, less is mixed in as layers go up: minus their correlation is above {CLEARLY}, published .67.",
            _falling,
            CLEARLY,
            within=DIFFERENCE,
            coarse=True,
        ),
    ),
    meaning="MiniLM discounts as BERT does, but not the same tokens. [CLS] plays the part that [SEP] has in BERT: a quarter of "
    "all weight goes to it, and hardly anything of it is mixed in, since its f(x) is short. [SEP] and punctuation get little "
    "weight here; their f(x) is shorter than that of words, though not by so much that they have less of what is mixed in than "
    "of weight: what [CLS] does not give, all others share. Rare tokens have longer vectors, as published (.74 and .75). With "
    "residual and normalisation a layer mixes in a quarter, not nearly all: the main point of 2021. It does not mix less the "
    "deeper it lies: the last of the six layers mixes most.",
    differs=(
        "The model is all-MiniLM-L6-v2, 6 layers of 12 heads, 384 wide, distilled and tuned for sentence vectors; published "
        "figures are of bert-base-uncased, 12 layers, and stand beside ours without a verdict. --model names another.",
        "Of the figures only rho.norm, marked S, is on the slides. Those marked P or N are of the papers of 2020 and 2021 and "
        "their notebooks; those marked R are recalled from them, and could not be verified. Weights by layer, marked F, are of "
        "Clark et al. (2019), whose figure the slides show.",
        "The slides name early, middle and deep layers without numbers: we take thirds, by which BERT's weights in that figure "
        "peak as said. MiniLM has half of BERT's layers, and need not divide the same work in the same order.",
        "Texts are pairs of WikiText-2's test paragraphs of at most 128 wordpieces; published: 992 pairs of Wikipedia, in which, "
        "for the mixing ratios, 12 % of the words are masked; here none is.",
        "Nothing is trained: a seed is one of disjoint parts of the texts, so that intervals tell of other texts, not of "
        "other models.",
        "Correlations are Spearman's, over samples: 1,024 keys of each kind and layer, 4,096 tokens; published: over all.",
        "rho is by the authors' ranks, where the data folder has them and the model has BERT's vocabulary; rho….corpus is by "
        "counts on the texts themselves.",
        f"The claim beside-words, of our own, and the bounds of {CLEARLY} of the claim depth and of {STRONG} of the claim strong "
        "were written after the numbers had been seen.",
    ),
    seeds=SEEDS,
    gate=None,
)
