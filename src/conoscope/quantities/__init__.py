"""Quantities: from what a batch left in a layer to the arrays that a statistic sums.

Each quantity is a pure function of its subject and of the options in its signature. It answers what a statistic's `of`
takes, items first, or that statistic already summed; None where the subject has no such site.
"""

from conoscope.quantities import (  # noqa: F401  enters them into QUANTITIES
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
