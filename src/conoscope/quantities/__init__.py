"""Quantities: from the trace of a layer to the arrays that a statistic sums.

Each quantity is a pure function of its subject and of the options in its signature. It returns the arguments of a statistic's
`of`, with the items on the first axis, or that statistic already summed; None if the subject has no such site.
"""

from conoscope.quantities import (  # noqa: F401  registers them in QUANTITIES
    attention,
    class_maps,
    classes,
    cones,
    directionality,
    gates,
    kinds,
    mixing,
    spectrum,
    stream,
    words,
)
from conoscope.quantities.base import MASKS, QUANTITIES, Quantity, Subject, quantity, resolve_mask

__all__ = ["MASKS", "QUANTITIES", "Quantity", "Subject", "quantity", "resolve_mask"]
