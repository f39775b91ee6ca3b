"""Quantities: from the traces of layers to the arrays that a statistic sums.

Reductions take one layer at a time, while its tensors exist; quantities take reductions, stacked over layers, and return what a
statistic sums. `base.py` says how both are written.
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
    reductions,
    spectrum,
    stream,
    words,
)
from conoscope.quantities.base import MASKS, QUANTITIES, Quantity, Subject, quantity, resolve_mask

__all__ = ["MASKS", "QUANTITIES", "Quantity", "Subject", "quantity", "resolve_mask"]
