"""The discussion of Fosse et al. 2023: class directions are nearly orthogonal; are they still with many classes?"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Row, Study
from conoscope.studies.contrasts import COLUMNS, words
from conoscope.studies.published.cone_claims import RIGHT
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

TOPICS = {64: (2, 5, 10, 20, 50, 100), 16: (5, 20, 100)}
"""Numbers of classes, by width."""
MANY = 20
"""Smallest number of classes that counts as many."""
EVEN, SHARED, ALIKE, HALF = 0.1, 0.5, 0.02, 0.5
"""A mean cosine below the first is nearly 0; with a cosine above the second, two classes share a direction; accuracies this close
are equal; a share of dimensions below the last leaves many unused. All are bounds of ours."""


def _conditions() -> Iterator[Condition]:
    # The newsgroups first: they take longest.
    yield Condition({"corpus": "newsgroups", "classes": 20, "width": 64}, "newsgroups", _training(64), quick=False)
    for width, counts in TOPICS.items():
        for classes in counts:
            keys = {"corpus": "bistro-topics", "classes": classes, "width": width}
            quick = width == max(TOPICS) and classes in (2, 10)
            yield Condition(keys, f"bistro-topics-{classes}", _training(width), quick=quick)


def _training(width: int) -> Training:
    return Training(width=width, layers=3, epochs=30, patience=4, batches="shuffled")


def _read(made: "Made") -> Iterator[Row]:
    result = made.measure("capacity", "class_cones", "effective_rank")
    capacity, nearest = (_last(result[name]) for name in ("capacity", "class_cones.nearest"))
    yield {"quantity": "accuracy", "value": made.accuracy()}
    cone = nearest[(nearest["representative"] == "mean") & (nearest["control"] == "none")]
    yield {"quantity": "nearest cone", "value": float(cone["value"].iloc[0])}
    whole = capacity[capacity["classes"] == capacity["classes"].max()].iloc[0]
    yield {"quantity": "largest cosine", "value": float(whole["value"])}
    between = _last(result["class_cones.between"])
    means = between[between["representative"] == "mean"]
    yield {"quantity": "typical cosine", "value": float(means["value"].abs().median())}
    for quantity, column in (("mean cosine", "mean"), *((name, name) for name in ("simplex", "random", "effective_rank"))):
        yield {"quantity": quantity.replace("_", " "), "value": float(whole[column])}
    used = _last(result["effective_rank"]).iloc[0]
    yield {"quantity": "share used", "value": float(used["value"] / used["width"])}


def _last(frame: "pd.DataFrame") -> "pd.DataFrame":
    hidden = frame[frame["site"] == "hidden"]
    last: pd.DataFrame = hidden[hidden["layer"] == hidden["layer"].max()]
    return last


def _wide(rows: "pd.DataFrame") -> "pd.DataFrame":
    """One column per quantity, and the name of the case."""

    keys = ["corpus", "classes", "width", "seed"]
    wide = rows.pivot(index=keys, columns="quantity", values="value").reset_index()
    identified = wide[keys[:-1]].itertuples(index=False, name=None)
    return wide.assign(case=[words(dict(zip(keys, values, strict=False))) for values in identified])


def _growth_of(quantity: str) -> "Callable[[pd.DataFrame], pd.DataFrame]":
    """A contrast: the increase of a quantity from one number of classes to the next."""

    def growth(rows: "pd.DataFrame") -> "pd.DataFrame":
        topics = _wide(rows)
        topics = topics[topics["corpus"] == "bistro-topics"].sort_values(["width", "classes"], ascending=[False, True])
        by_run = topics.groupby(["width", "seed"], sort=False)
        before = by_run["classes"].shift()
        steps = zip(topics["width"], before, topics["classes"], strict=True)
        cases = [f"width {width:g}, classes {one:g} to {other:g}" for width, one, other in steps]
        return topics.assign(case=cases, value=by_run[quantity].diff())[COLUMNS].dropna()

    return growth


def _contrast(of: "Callable[[pd.DataFrame], pd.Series[float]]", least: int = 0) -> "Callable[[pd.DataFrame], pd.DataFrame]":
    """A contrast that computes a number from the quantities, for cases with at least `least` classes."""

    def contrast(rows: "pd.DataFrame") -> "pd.DataFrame":
        wide = _wide(rows)
        return wide.assign(value=of(wide))[wide["classes"] >= least][COLUMNS]

    return contrast


STUDY = Study(
    name="many-classes",
    title="How many class directions fit: cosines between classes against their number",
    source="Fosse, Nguyen, Sébillot and Gravier 2023, Géométrie de l'auto-attention en classification (TALN), discussion",
    conditions=tuple(_conditions()),
    read=_read,
    claims=(
        Claim(
            "grows",
            "The largest cosine between two class directions grows with the number of classes.",
            _growth_of("largest cosine"),
            within=(-2, 2),
        ),
        Claim(
            "even",
            "With twenty classes and more, cosines between directions average out: their mean is within .1 of 0.",
            _contrast(lambda wide: -wide["mean cosine"].abs(), MANY),
            -EVEN,
            (-1, 0),
        ),
        Claim(
            "typical",
            "With twenty classes and more, most directions are orthogonal, to 15 degrees: the median of their cosines, without "
            "their signs, is below .26 (the bound is ours).",
            _contrast(lambda wide: -wide["typical cosine"], MANY),
            -RIGHT,
            (-1, 0),
        ),
        Claim(
            "apart",
            "With twenty classes and more, no two share a direction: the largest cosine is below .5.",
            _contrast(lambda wide: -wide["largest cosine"], MANY),
            -SHARED,
            (-1, 1),
        ),
        Claim(
            "simplex",
            "The largest cosine is nearer to the least that so many directions can have than to that of random ones.",
            _contrast(lambda wide: wide["random"] + wide["simplex"] - 2 * wide["largest cosine"]),
            within=(-3, 3),
        ),
        Claim(
            "enough",
            "The direction is enough: the nearest cone is right as often as the model, or less than .02 less.",
            _contrast(lambda wide: wide["nearest cone"] - wide["accuracy"]),
            -ALIKE,
            (-1, 1),
        ),
        Claim(
            "unused",
            "The last layer leaves dimensions unused: its effective rank is below half of the width.",
            _contrast(lambda wide: -wide["share used"]),
            -HALF,
            (-1, 0),
        ),
        Claim("fills", "It uses more of them the more classes there are.", _growth_of("share used"), within=(-1, 1)),
    ),
    differs=(
        "The slide asks questions, of BERT and its 768 dimensions, and gives no figures: the claims and their bounds are ours. "
        "Those of twenty newsgroups under a fine-tuned model are in fosse-fine-tuning.",
        "Models are pure-attention of three layers, 64 or 16 wide, without word vectors: classes can outnumber dimensions.",
        "bistro-topics is a corpus of our own: which dish was eaten, of 2 to 100, with 10,000 reviews to learn from and 1,000 "
        "to look at, however many the classes. Dishes share words, as newsgroups share themes.",
        "Cosines are of the mean directions of [CLS] in the last layer. Beside them, the least that the largest of k "
        "directions can be (`simplex`), and what random ones have in that width (`random`).",
        "A mean of cosines near 0 is of directions in two opposite bundles as well: whether directions are orthogonal is judged "
        "by the median of their cosines without signs (`typical`) and by the largest one (`apart`), which bundles at right "
        "angles to each other do not pass. Orthogonal means 15 degrees, as in the other studies.",
        "`share used` is the effective rank of all tokens' hidden states in the last layer, 16 of each text, over the width; "
        "the `effective rank` is that of the class directions alone.",
    ),
    seeds=10,
    meaning=(
        "Up to a hundred classes the cosines between class directions average out to nearly nothing, and in 64 dimensions the "
        "nearest direction is enough to classify. But the closest two draw nearer with the number of classes: up to ten they "
        "stand nearer to as far apart as can be than to random ones, from fifty on it is the other way round, and the closest "
        "two newsgroups have a cosine of .75, where the model is right on .67. These are runs of "
        "three seeds with batches grouped by length; ten seeds with shuffled ones, and the dimensions in use, are still to run."
    ),
)
