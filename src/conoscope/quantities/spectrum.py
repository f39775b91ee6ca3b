"""Spectrum: the vectors whose products give the singular values."""

from conoscope.capture.trace import Trace
from conoscope.quantities.base import Arrays, quantity, sampled_tokens
from conoscope.quantities.cones import drawn_vectors

DRAWN = {"head": 8, "whole": 16}
"""How many tokens of a sentence are sampled unless `tokens=all`; fewer for a head, which is much narrower."""


@quantity()
def vectors(trace: Trace, site: str, width: str, mask: str, tokens: str) -> Arrays | None:
    """The vectors of every token that counts, or of some in each sentence, sampled by hash."""
    length = trace.batch.real.shape[1]
    return drawn_vectors(trace, site, width, sampled_tokens(trace.batch, mask, DRAWN[width] if tokens == "drawn" else length))
