"""Words: the vectors of the same word in many sentences."""

from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.token_kinds import OTHER
from conoscope.capture.trace import Trace
from conoscope.quantities.base import Arrays, quantity
from conoscope.sums.numeric import at_least_single, mixed
from conoscope.sums.samples import Sample, names_of

WORDS, OCCURRENCES = 64, 100
"""The number of sampled words of the vocabulary, and of sampled occurrences of each, both chosen by hash."""


@quantity(sampled=True, sparse=True)
def occurrences(trace: Trace, site: str, so_far: Sample) -> Arrays | None:
    """Vectors of some words, for a Sample: one group a word, numbered by a hash of its token.

    A word is an entry of the tokenizer's vocabulary that is neither special, unknown, nor punctuation.
    """
    x = trace.whole(site)
    if x is None:
        return None
    # The same words and places are chosen in every layer.
    at, groups, ranks, names = trace.batch.memo(("words", so_far.mark), lambda: _words(trace.batch, so_far))
    if not len(at):
        return None
    return groups, ranks, at_least_single(x.flatten(0, 1).index_select(0, at)), names, OCCURRENCES, WORDS


def _words(batch: Batch, so_far: Sample) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The words of a batch that could enter the sample: their flat indices, groups, ranks and spellings."""
    at = (batch.content & (batch.kind == OTHER)).flatten().nonzero()[:, 0]
    ids, ranks = batch.inputs["input_ids"].flatten()[at], batch.token_ranks.flatten()[at]
    groups = mixed(ids)
    kept = so_far.entering(groups, ranks, (OCCURRENCES, WORDS))
    names = names_of([batch.spelling.get(token, str(token)) for token in ids[kept].tolist()]).to(ids.device)
    return at[kept], groups[kept], ranks[kept], names
