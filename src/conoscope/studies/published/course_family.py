"""The course's practical on self-attention: from the mean of word vectors to layers of attention, step by step, on IMDB."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Row, Study
from conoscope.studies.contrasts import COLUMNS
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

QUESTIONS = ("simple", "question", "question-value")
LAYERED = ("tp9-base", "tp9-residual", "tp9-positions", "tp9-cls")
TEXTS = 5000
"""Number of test reviews, balanced over the classes."""
BASELINE_RATE = 1e-2
"""At 1e-3 the mean, a linear map of 100 numbers, would still improve after sixty epochs."""
ALIKE = 0.02
"""Differences of accuracy up to this count as none."""
STRONG = 0.75


def _conditions() -> Iterator[Condition]:
    for preset in ("mean", *QUESTIONS, *LAYERED):
        layers, rate = (3, None) if preset in LAYERED else (None, BASELINE_RATE)
        training = Training(
            preset=preset, layers=layers, learning_rate=rate, batches="shuffled",
            vectors="glove", freeze=True, epochs=20, max_length=500,
        )  # fmt: skip
        quick = preset in ("mean", "simple", "tp9-positions", "tp9-cls")
        yield Condition({"preset": preset}, "imdb", training, balanced=TEXTS, quick=quick)


def _read(made: "Made") -> Iterator[Row]:
    yield {"quantity": "accuracy", "value": made.accuracy()}
    yield {"quantity": "epochs", "value": made.trained.epochs}


def _better(rows: "pd.DataFrame", pairs: Sequence[tuple[str, str]]) -> "pd.DataFrame":
    """The accuracy of the first preset of each pair minus that of the second, with the same seed."""
    import pandas as pd

    accuracy = rows[rows["quantity"] == "accuracy"].pivot(index="seed", columns="preset", values="value")
    found = [
        {"case": f"{one} over {other}", "seed": seed, "value": by_preset[one] - by_preset[other]}
        for one, other in pairs
        if {one, other} <= set(accuracy)
        for seed, by_preset in accuracy.iterrows()
    ]
    return pd.DataFrame(found, columns=COLUMNS).dropna()


def _of_mean(rows: "pd.DataFrame") -> "pd.DataFrame":
    return rows[(rows["quantity"] == "accuracy") & (rows["preset"] == "mean")].assign(case="mean")[COLUMNS]


STUDY = Study(
    name="course-family",
    title="The course's steps from the mean of word vectors to self-attention, on IMDB",
    source="AMAL, practical 9 (with the baselines of practical 8): self-attention on IMDB",
    conditions=tuple(_conditions()),
    read=_read,
    claims=(
        Claim(
            "mean",
            "The mean of word vectors alone is right on more than three reviews in four.",
            _of_mean,
            STRONG,
            within=(0, 1),
        ),
        Claim(
            "question",
            "Words weighed by a question do better than their mean.",
            lambda rows: _better(rows, [(preset, "mean") for preset in QUESTIONS]),
            within=(-1, 1),
        ),
        Claim(
            "base",
            "Three layers without a residual are not clearly better than the mean: by less than .02.",
            lambda rows: _better(rows, [("mean", "tp9-base")]),
            -ALIKE,
            within=(-1, 1),
        ),
        Claim(
            "residual",
            "The residual helps.",
            lambda rows: _better(rows, [("tp9-residual", "tp9-base")]),
            within=(-1, 1),
        ),
        Claim(
            "positions",
            "Positions help.",
            lambda rows: _better(rows, [("tp9-positions", "tp9-base")]),
            within=(-1, 1),
        ),
        Claim(
            "cls",
            "It is all the same whether [CLS] is classified or the mean: neither is more than .02 better.",
            lambda rows: _better(rows, [("tp9-cls", "tp9-positions"), ("tp9-positions", "tp9-cls")]),
            -ALIKE,
            within=(-1, 1),
        ),
    ),
    differs=(
        "The course publishes no figures. That positions help is its statement; that the residual does, it states of many "
        "layers, for which there is the study course-layers. The other claims are ours: the course asks for these comparisons, "
        "and does not say how they come out. All bounds are ours.",
        "Tokens are lower-cased words with punctuation split off; the course's are whatever stands between spaces, so that more "
        "of them have no vector. Both are cut at 500.",
        "Word vectors are GloVe 6B 100d of the words in the training split, and stay as they are; all 400,000 in the course.",
        "A tenth of the training split is kept back to stop by: at most 20 epochs, until the validation loss has not fallen for "
        "five. Batches of 64, where the course's command has 20 reviews and 50 epochs.",
        "Adam's rate is 1e-3 for models with layers and 1e-2 for the four without: the mean, tried by itself, still learns after "
        "sixty epochs at 1e-3. No other rate was tried for the others. Students took 1e-4 and 150 epochs.",
        "Positions are added to the base, not to the model with a residual, and [CLS] to the model with positions.",
        "Accuracy is on 5,000 of the 25,000 test reviews, the same for all. Intervals are over seeds, of differences between two "
        "models of the same seed.",
    ),
    seeds=5,
    gate=None,
    meaning=(
        "Self-attention without a residual is already .07 better than the mean of frozen word vectors, more than "
        "expected. For the sentiment of whole reviews the bag of words is nearly enough; on bistro, whose labels need the "
        "order of words, positions decide (docs/log.md, and the study course-positions)."
    ),
)
