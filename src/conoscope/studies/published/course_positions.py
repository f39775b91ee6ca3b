"""The course's positions: sinusoidal, learned and relative beside none, on IMDB, bistro, and pairs told apart by negation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Row, Study
from conoscope.studies.contrasts import difference, where
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

NONE, SINUSOIDAL = "none", "sinusoidal"
OTHERS = ("learned", "relative")
WITH = (SINUSOIDAL, *OTHERS)
KINDS = ("added", "moved")
BISTRO = "bistro"
ALIKE = 0.02
"""Differences of accuracy up to this count as none, as in the study of the course's family."""
TEXTS = 5000
"""Number of test reviews of IMDB, balanced over the classes."""

BASE = Training(preset="tp9-base", layers=3, batches="shuffled")
CORPORA = {
    "imdb": replace(BASE, vectors="glove", freeze=True, epochs=10, max_length=256),
    BISTRO: BASE,
}


def _conditions() -> Iterator[Condition]:
    for corpus, training in CORPORA.items():
        for positions in (NONE, *WITH):
            keys = {"corpus": corpus, "positions": positions}
            chosen = replace(training, positions=positions)
            yield Condition(keys, corpus, chosen, balanced=None if corpus == BISTRO else TEXTS, quick=corpus == BISTRO)


def _read(made: "Made") -> Iterator[Row]:
    yield {"quantity": "accuracy", "value": made.accuracy()}
    yield {"quantity": "epochs", "value": made.trained.epochs}
    if made.condition.keys["corpus"] == BISTRO:
        from conoscope.studies.published.negation_pairs import answers_to_pairs

        yield from answers_to_pairs(made.model)


def _beside(rows: "pd.DataFrame", quantity: str, kinds: Sequence[str], base: str) -> "pd.DataFrame":
    """A quantity with each kind of positions minus that with `base`."""
    import pandas as pd

    of_base = where(rows, quantity=quantity, positions=base)
    return pd.concat(
        [
            difference(where(rows, quantity=quantity, positions=kind), of_base.assign(positions=kind), ("corpus", "positions"))
            for kind in kinds
        ]
    )


def _of_pairs(rows: "pd.DataFrame", quantity: str, kinds: Sequence[str] = KINDS, sign: int = 1) -> "pd.DataFrame":
    """The same beside none, for each kind of pair."""
    import pandas as pd

    found = [(_beside(rows, f"{quantity}.{kind}", WITH, NONE), kind) for kind in kinds]
    return pd.concat([each.assign(case=each["case"] + f", {kind}", value=sign * each["value"]) for each, kind in found])


def _order(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _beside(rows, "accuracy", WITH, NONE)


def _possible(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _beside(rows, "accuracy", OTHERS, SINUSOIDAL)


STUDY = Study(
    name="course-positions",
    title="The course's positions, and what a model without them makes of negation",
    source="AMAL, practical 9, section 3: position embeddings",
    conditions=tuple(_conditions()),
    read=_read,
    claims=(
        Claim(
            "order",
            "A model without positions lacks what they tell: each kind of positions makes it more accurate.",
            _order,
            within=(-1, 1),
            gated=False,
        ),
        Claim(
            "possible",
            f"Positions may be learned, or relative, instead: neither is more than {ALIKE} worse than sinusoidal ones. The bound "
            "is ours.",
            _possible,
            -ALIKE,
            within=(-1, 1),
            gated=False,
        ),
        Claim(
            "scope",
            "What negation applies to is a matter of order: of pairs with the same words, both are answered rightly more often "
            "with positions.",
            lambda rows: _of_pairs(rows, "share.right", ("moved",)),
            within=(-1, 1),
        ),
        Claim(
            "negation",
            "A negation changes the answer more often with positions, whether it is added or applied to another word.",
            lambda rows: _of_pairs(rows, "share.flipped"),
            within=(-1, 1),
        ),
        Claim(
            "apart",
            "With positions the two vectors of such a pair are further apart: the cosine without them, less that with them.",
            lambda rows: _of_pairs(rows, "cosine", sign=-1),
            within=(-2, 2),
        ),
    ),
    differs=(
        "The course asks for positions on IMDB, and gives no figure. That a model without them has trouble with sentiment and "
        "negation is its statement; the pairs, their number and the cosines are ours, after the probe pairs of Fosse et al.",
        "The model is the course's first: three layers, the mean, no residual. On IMDB it has frozen vectors of GloVe 6B 100d "
        "and reads 256 words, for ten epochs at most; on bistro it learns vectors 64 wide, for fifty at most.",
        "Pairs are of bistro's grammar, which knows the answers: `added`, a sentence with and without a negation; `moved`, two "
        "sentences of the same words. The second sentence of each is in the test split, so that nothing was learnt from it.",
        "The two sentences of a moved pair are one bag of words: without positions their vectors are equal, and no answer "
        "changes, by construction.",
        "Relative positions are Shaw's, clipped at 16. The course says that BERT has relative positions; it has learned absolute "
        "ones.",
    ),
    seeds=5,
)
