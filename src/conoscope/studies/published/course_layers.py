"""The course's statement on depth: more and more layers, with a residual and without, on IMDB."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Row, Study
from conoscope.studies.contrasts import difference, where
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

LAYERS = (1, 2, 3, 4, 5, 6)
MOST = LAYERS[-1]
NONE, COURSE, PRENORM = "none", "course", "prenorm"
DEPTHS = {NONE: LAYERS, COURSE: LAYERS, PRENORM: (1, MOST)}
"""The numbers of layers for each residual."""
REMEDIES = (COURSE, PRENORM)
DEEP = (4, 5, 6)
"""Numbers of layers that are noticeably more than one."""
ALIKE, MUCH = 0.02, 0.05
"""Differences of accuracy up to the first count as none, from the second on as large."""
TEXTS = 5000
"""Number of test reviews, balanced over the classes."""
MEASURED = 500
"""Number of these in which the cosine of words is measured."""


def _conditions() -> Iterator[Condition]:
    for residual, depths in DEPTHS.items():
        for layers in depths:
            training = Training(preset="tp9-base", layers=layers, residual=residual, batches="shuffled",
                                vectors="glove", freeze=True, epochs=10, max_length=256)  # fmt: skip
            keys = {"residual": residual, "layers": layers}
            yield Condition(keys, "imdb", training, balanced=TEXTS, quick=layers in (1, MOST) and residual != PRENORM)


def _read(made: "Made") -> Iterator[Row]:
    from conoscope.studies.made import by_layer

    yield {"quantity": "accuracy", "value": made.accuracy()}
    yield {"quantity": "epochs", "value": made.trained.epochs}
    words = by_layer(made.measure("sim", limit=MEASURED)["sim"], "hidden")
    yield {"quantity": "sim.hidden", "value": words[max(words)]}


def _accuracy(rows: "pd.DataFrame", residual: str, layers: int) -> "pd.DataFrame":
    return where(rows, quantity="accuracy", residual=residual, layers=layers)


def _lost(rows: "pd.DataFrame", residual: str, depths: tuple[int, ...]) -> "pd.DataFrame":
    """Accuracy of one layer minus that of more."""
    import pandas as pd

    one = _accuracy(rows, residual, 1)
    found = [difference(one.assign(layers=depth), _accuracy(rows, residual, depth), ("residual", "layers")) for depth in depths]
    return pd.concat(found)


def _remedied(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Accuracy with a residual minus that without, with the most layers."""
    import pandas as pd

    none = _accuracy(rows, NONE, MOST)
    found = [
        difference(_accuracy(rows, residual, MOST), none.assign(residual=residual), ("residual", "layers"))
        for residual in REMEDIES
    ]
    return pd.concat(found)


def _kept(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Accuracy with the most layers minus that with one, with a residual."""
    import pandas as pd

    lost = pd.concat([_lost(rows, residual, (MOST,)) for residual in REMEDIES])
    return lost.assign(value=-lost["value"])


STUDY = Study(
    name="course-layers",
    title="One to six layers with a residual and without, on IMDB",
    source="AMAL, practical 9, section 2: the residual model",
    conditions=tuple(_conditions()),
    read=_read,
    claims=(
        Claim(
            "degrades",
            "Without a residual, many layers learn worse than one: the accuracy of one layer, less that of four, five and six.",
            lambda rows: _lost(rows, NONE, DEEP),
            within=(-1, 1),
        ),
        Claim(
            "degrades-much",
            f"Much worse: by more than {MUCH} for six layers. The bound is ours.",
            lambda rows: _lost(rows, NONE, (MOST,)),
            MUCH,
            within=(-1, 1),
        ),
        Claim(
            "remedy",
            "A residual remedies it: six layers with one are more accurate than six without.",
            _remedied,
            within=(-1, 1),
        ),
        Claim(
            "kept",
            f"With a residual nothing is lost by depth: six layers are not more than {ALIKE} worse than one. The bound is ours.",
            _kept,
            -ALIKE,
            within=(-1, 1),
        ),
    ),
    differs=(
        "The course states it without a figure, and asks for three layers alone.",
        "Claims are of all runs, those at chance too: a deep model that learns nothing is what the statement is of.",
        "`course` is the residual as the course prints it, with ReLU outside of the sum, so that no path goes through unchanged; "
        "`prenorm` adds to the input what attention and ReLU make of it, and was trained with one and with six layers.",
        "Words have frozen vectors of GloVe 6B 100d; reviews are cut at 256 words, the course's at 500. Adam at 1e-3, shuffled "
        "batches of 64, at most ten epochs, until the validation loss has not fallen for five.",
        f"Accuracy is on {TEXTS:,} of the 25,000 test reviews; sim.hidden, the mean cosine of the words of a review after the "
        f"last layer, on {MEASURED} of these.",
        "Six layers are few: BERT has twelve. What more would do is not told.",
    ),
    seeds=5,
    gate=None,
)
