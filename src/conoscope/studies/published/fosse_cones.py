"""Fosse et al. 2023, class cones: whether the direction of [CLS] tells the class in models of attention alone, trained from
scratch. Those of fine-tuned models are in fosse_fine_tuning.py."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Published, Row, Study
from conoscope.studies.contrasts import cases
from conoscope.studies.published import cone_claims as claims
from conoscope.studies.published.anisotropy_rows import DIMENSIONS, anisotropy_rows
from conoscope.studies.published.cone_rows import cone_rows, example_rows
from conoscope.studies.published.mixed_values import mixed_rows
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

LABELS = {
    "hatexplain": ("normal", "hatespeech", "offensive"),
    "yelp_hat": ("negative", "positive"),
    "esnli": ("neutral", "entailment", "contradiction"),
}
MEASURES = ("class_cones", "sim", *DIMENSIONS)
RUNS = (("hatexplain", 5, "hatexplain:test", 999), ("hatexplain", 1, "hatexplain:test", 999),
        ("yelp_hat", 5, "yelp_hat:test-50", None), ("esnli", 2, "esnli:test", 999))  # fmt: skip
"""Corpus, layers, texts, and how many of them, balanced over the classes."""

# fmt: off
MEDIANS: Mapping[tuple[str, int, str], Sequence[Sequence[float]]] = {
    ("hatexplain", 5, "hidden"): ((.98, .79, .95), (.86, .995, .905), (.94, .95, .975)),
    ("hatexplain", 5, "value"): ((.97, .605, .90), (.73, .99, .805), (.88, .90, .945)),
    ("hatexplain", 5, "key"): ((.955, .335, .84), (.485, .98, .605), (.765, .78, .89)),
    ("hatexplain", 1, "hidden"): ((.795, .765, .79), (.715, .84, .74), (.81, .755, .815)),
    ("yelp_hat", 5, "hidden"): ((.98, -.72), (-.59, .995)),
    ("yelp_hat", 5, "value"): ((.97, -.665), (-.505, .995)),
    ("yelp_hat", 5, "key"): ((.985, -.83), (-.755, .995)),
    ("esnli", 2, "hidden"): ((.855, .78, .84), (.815, .93, .725), (.66, .545, .82)),
}
"""One row per class whose first correct text is the representative; in it, one median cosine per class of texts."""
# fmt: on


def _pure(layers: int) -> str:
    return f"pure-attention L{layers}"


def _conditions() -> Iterator[Condition]:
    for corpus, layers, texts, balanced in RUNS:
        training = Training(layers=layers, vectors="glove-50", lift=300, batches="shuffled")
        quick = corpus == "hatexplain"
        yield Condition({"corpus": corpus, "model": _pure(layers)}, corpus, training, texts=texts, balanced=balanced, quick=quick)


def _read(made: "Made") -> Iterator[Row]:
    before = made.untrained().measure(*MEASURES)
    yield from (*cone_rows("before", before, answers=False), *anisotropy_rows("before", before))
    yield {"stage": "after", "quantity": "accuracy", "value": made.accuracy()}
    after = made.measure(*MEASURES)
    yield from (*cone_rows("after", after), *anisotropy_rows("after", after))
    if made.seed == 0:
        yield from example_rows("after", after)
    yield from ({"stage": "after", **row} for row in mixed_rows(made.model, made.texts))


def _published() -> Iterator[Published]:
    for (corpus, layers, site), rows in MEDIANS.items():
        for label, medians in zip(LABELS[corpus], rows, strict=True):
            for gold, median in zip(LABELS[corpus], medians, strict=True):
                keys = {"quantity": f"median.{site}", "class": label, "gold": gold}
                yield Published({"corpus": corpus, "model": _pure(layers), "stage": "after", **keys}, median, "F", 0.02)


def _opposite(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The median cosine with the other class's representative, with its sign changed."""
    there = claims.of(rows, "median.hidden", corpus="yelp_hat")
    if there.empty:
        return cases(there, ())
    other = there[there["class"] != there["gold"]]
    return cases(other.assign(value=-other["value"]), (*claims.BY, "class"))


STUDY = Study(
    name="fosse-cones",
    title="Class cones: the direction of [CLS] and the class in models of attention alone",
    source="Fosse, Nguyen, Sébillot and Gravier 2023, Géométrie de l'auto-attention en classification (TALN), class cones",
    conditions=tuple(_conditions()),
    read=_read,
    published=tuple(_published()),
    claims=(
        claims.APART,
        claims.TUNED,
        claims.NEAREST,
        claims.CONTROLS,
        claims.BETWEEN,
        Claim("opposite", "The two classes of reviews point to opposite sides.", _opposite, within=(-1, 1)),
        claims.ORTHOGONAL,
        claims.NEIGHBOURS,
        claims.GUIDED,
        claims.REINFORCED,
        claims.UNUSED,
        claims.FEWER,
    ),
    differs=(
        "Word vectors are GloVe 6B 50d, complete, lifted to 300 dimensions with lengths and angles kept; published: GloVe 840B "
        "300d.",
        "Tokens are lower-cased words by a regular expression; published: HateXplain's own tokens, and lemmas by spaCy of "
        "Yelp-HAT and e-SNLI.",
        "e-SNLI: where the full files are not there, training takes a subset of 20,000 pairs, with a separator between the two "
        "sentences; published: all pairs, without one.",
        "The medians are in no source: they are read off figures of the notebooks in the authors' code, to ±.02, of single "
        "runs without a seed, and are given without the representative itself here. They show that the two classes of Yelp-HAT "
        "are opposite and that those of HateXplain overlap, where the slides call cones orthogonal.",
        "Before is the untrained model, with the weights that training begins with, and with directions of its own. Directions "
        "are those of the half of the texts that is not compared; published: one text for each class.",
        "In pure-attention all [CLS] have one length, so that the class can only be told by direction there.",
        "Weights guide the direction: this reads the slide on the geometry of attention, which gives no number. What the last "
        "layer adds to [CLS] is mixed again from the same values, with equal weights, or with the model's in reverse order. "
        "Directions are of states made with the model's weights, which favours these.",
        "Orthogonal (15 degrees) and unused (half of the width) have bounds of ours. The effective rank is that of all tokens' "
        "hidden states, 16 of each text; a corpus with few texts for the width lowers it.",
        "Nearest and farthest texts are kept by name and cosine, for seed 0, the three on each side; the slide's own example "
        "is of another corpus than it says (38,000 reviews of Yelp, by BERT), so that its cosines cannot be compared.",
    ),
    seeds=10,
    meaning=(
        "With one layer on HateXplain and two on e-SNLI, direction tells the class (`apart`, `controls`), and the models' "
        "[CLS] lie in one narrow cone all the same: cosines with the own class's direction are .97, with the others' .93 and "
        ".96, and the directions of classes are far from right angles (`orthogonal`). Nearest cone and model agree on .89 and "
        ".87 of the texts, so that `nearest` is open. With five layers two of five models of each corpus learn nothing, and "
        "the other three differ so much that hardly a claim is decided: in one of each three all [CLS] are parallel to three "
        "digits, and on Yelp-HAT the other two have their classes at right angles (cosines .06 and .22), not opposite. Before "
        "training the nearest cone is right in .74 of the reviews of Yelp-HAT, as often as after it on average, on the other "
        "corpora in .35 to .39. That weights guide the direction is shown with one layer only (`guided`)."
    ),
)
