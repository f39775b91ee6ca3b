"""Claims on class cones and anisotropy that studies share."""

from collections.abc import Sequence
from math import cos, pi
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim
from conoscope.studies.contrasts import cases, difference, where

if TYPE_CHECKING:
    import pandas as pd

BY = ("corpus", "model")
AGREEING = 0.9
"""Share of texts on which the nearest cone and the model must agree."""
RIGHT = cos(5 * pi / 12)
"""Largest cosine, .259, of two directions that count as orthogonal: 15 degrees from a right angle. The bound is ours."""
HALF = 0.5
"""Share of the width's dimensions below which a model counts as leaving many unused. The bound is ours."""
OTHERS = ("equal", "reversed")
"""The mixtures of values that the one by the model's weights is compared with."""
MIDDLE = {"hatexplain": ("offensive", ("normal", "hatespeech")), "esnli": ("neutral", ("entailment", "contradiction"))}
"""The class that lies between two others, by corpus."""


def of(rows: "pd.DataFrame", quantity: str, stage: str = "after", **keys: str) -> "pd.DataFrame":
    """The rows of a quantity after training, or in another stage."""
    return where(rows, stage=stage, quantity=quantity, **keys)


def own_less_other(rows: "pd.DataFrame", stage: str = "after") -> "pd.DataFrame":
    """The mean cosine with the own class's direction minus that with the others."""
    return difference(of(rows, "cosine.own", stage), of(rows, "cosine.other", stage), BY)


def _after_less_before(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(own_less_other(rows), own_less_other(rows, "before"), ("case",))


def _agreement(rows: "pd.DataFrame") -> "pd.DataFrame":
    return cases(of(rows, "agreement"), BY)


def _above_controls(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The accuracy of the nearest cone minus that of each control."""
    controls = rows[(rows["stage"] == "after") & rows["quantity"].str.startswith("control.")]
    nearest = controls[["quantity"]].drop_duplicates().merge(of(rows, "nearest").drop(columns="quantity"), how="cross")
    return difference(nearest, controls, (*BY, "quantity"))


def _between(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Median cosine of the middle class minus that of the other end, with representatives of both ends."""
    import pandas as pd

    contrasts = []
    for corpus, (middle, ends) in MIDDLE.items():
        there = of(rows, "median.hidden", corpus=corpus)
        if there.empty:
            continue
        from_ends = there[there["class"].isin(ends)]
        third = from_ends[from_ends["gold"].isin(ends) & (from_ends["class"] != from_ends["gold"])]
        contrasts.append(difference(where(from_ends, gold=middle), third, (*BY, "class")))
    return pd.concat(contrasts) if contrasts else cases(rows.iloc[:0], ())


def _right_angles(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The cosine of two class directions that is farthest from 0, with its sign changed."""
    return _negative(of(rows, "cosine.largest"), BY)


def _negative(rows: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    return cases(rows.assign(value=-rows["value"]), by)


def sim_growth(rows: "pd.DataFrame", part: str) -> "pd.DataFrame":
    """SIM after training minus SIM before, at each site, in the last layer (`last`) or over all layers (`mean`)."""
    wanted = [f"sim.{site}.{part}" for site in ("hidden", "key", "value")]
    there = rows[rows["quantity"].isin(wanted)]
    return difference(where(there, stage="after"), where(there, stage="before"), (*BY, "quantity"))


def _last_growth(rows: "pd.DataFrame") -> "pd.DataFrame":
    return sim_growth(rows, "last")


def _mean_growth(rows: "pd.DataFrame") -> "pd.DataFrame":
    return sim_growth(rows, "mean")


def _unused(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _negative(of(rows, "share.effective_rank"), BY)


def _fewer(rows: "pd.DataFrame") -> "pd.DataFrame":
    ranks = where(rows, quantity="share.effective_rank")
    return difference(where(ranks, stage="before"), where(ranks, stage="after"), BY)


def _margin(rows: "pd.DataFrame", mixture: str) -> "pd.DataFrame":
    """By how much a mixture of values is nearer to the own class's direction than to the others."""
    own, other = (of(rows, f"cosine.{name}.mixed", mixture=mixture) for name in ("own", "other"))
    return difference(own, other, BY)


def _guided(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The margin of the mixture by the model's weights minus that of each other mixture."""
    import pandas as pd

    contrasts = []
    for other in OTHERS:
        contrast = difference(_margin(rows, "weights"), _margin(rows, other), ("case",))
        contrasts.append(contrast.assign(case=contrast["case"] + f", against {other} weights"))
    return pd.concat(contrasts)


def _neighbours(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(of(rows, "share.nearest"), of(rows, "share.farthest"), BY)


APART = Claim(
    "apart",
    "After training, cosines with the own class's direction exceed those with the others.",
    own_less_other,
    within=(-2, 2),
)
TUNED = Claim(
    "tuned", "Training widens the gap between the own class's direction and the others.", _after_less_before, within=(-4, 4)
)
NEAREST = Claim("nearest", "The nearest cone gives the model's answer nine times in ten.", _agreement, AGREEING, (0, 1))
CONTROLS = Claim(
    "controls", "The nearest cone beats lengths, labels dealt anew and the largest class.", _above_controls, within=(-1, 1)
)
BETWEEN = Claim(
    "between", "Offensive posts lie between normal and hateful ones; neutral pairs between the others.", _between, within=(-2, 2)
)
ORTHOGONAL = Claim(
    "orthogonal",
    "Cones are orthogonal: the directions of no two classes are more than 15 degrees from a right angle (the bound is ours).",
    _right_angles,
    -RIGHT,
    (-1, 0),
)
REINFORCED = Claim(
    "reinforced",
    "Training makes the last layer more anisotropic: SIM is larger after it than before.",
    _last_growth,
    within=(-2, 2),
)
EVERYWHERE = Claim(
    "everywhere", "It does so over the mean of all layers, not in the last one alone.", _mean_growth, within=(-2, 2)
)
GUIDED = Claim(
    "guided",
    "Weights guide the direction: what [CLS] takes in by them is nearer to its class than by equal or reversed weights.",
    _guided,
    within=(-4, 4),
)
NEIGHBOURS = Claim(
    "neighbours",
    "The five texts nearest to a representative are more often of its class than the five farthest.",
    _neighbours,
    within=(-1, 1),
    coarse=True,
)
UNUSED = Claim(
    "unused",
    "The last layer leaves dimensions unused: its effective rank is below half of the width (the bound is ours).",
    _unused,
    -HALF,
    (-1, 0),
)
FEWER = Claim("fewer", "After training the last layer uses fewer dimensions than before.", _fewer, within=(-1, 1))
