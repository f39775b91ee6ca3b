"""Words: the vectors of the same word in many sentences."""

from jaxtyping import Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.token_kinds import OTHER
from conoscope.quantities.base import quantity
from conoscope.sums.drawing import Candidates
from conoscope.sums.numeric import at_least_single, mixed
from conoscope.sums.samples import names_of

WORDS, OCCURRENCES = 64, 100
"""The number of sampled words of the vocabulary, and of sampled occurrences of each, both chosen by hash."""


def _words(batch: Batch, **options: str) -> Candidates:
    """The words of a batch: one group a word, numbered by a hash of its token.

    A word is an entry of the tokenizer's vocabulary that is neither special, unknown, nor punctuation.
    """
    at = (batch.content & (batch.kind == OTHER)).flatten().nonzero()[:, 0]
    ids, ranks = batch.inputs["input_ids"].flatten()[at], batch.token_ranks.flatten()[at]

    def names(index: Tensor) -> Tensor:
        return names_of([batch.spelling.get(token, str(token)) for token in ids[index].tolist()])

    return Candidates(mixed(ids), ranks, at, names, OCCURRENCES, WORDS)


@quantity(sample=_words, sparse=True)
def occurrences(rows: Float[Tensor, "l n h e"]) -> Float[Tensor, "l n d"]:
    """Vectors of some words, for a Sample: one group a word."""
    return at_least_single(rows.flatten(2))
