"""Spectrum: the vectors whose products give the singular values."""

from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.draws import sampled_tokens
from conoscope.quantities.base import Arrays, quantity
from conoscope.quantities.cones import by_width

DRAWN = {"head": 8, "whole": 16}
"""How many tokens of a sentence are sampled unless `tokens=all`; fewer for a head, which is much narrower."""


def _tokens(batch: Batch, width: str, mask: str, tokens: str, **options: str) -> Int[Tensor, " n"]:
    return sampled_tokens(batch, mask, DRAWN[width] if tokens == "drawn" else batch.real.shape[1])


@quantity(tokens=_tokens)
def vectors(rows: Float[Tensor, "l n h e"], width: str, mask: str, tokens: str) -> Arrays:
    """The vectors of every token that counts, or of some in each sentence, sampled by hash."""
    return (by_width(rows, width),)
