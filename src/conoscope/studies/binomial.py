"""The exact interval of a share of models, for claims that something is found in most of them."""

from collections.abc import Sequence

import numpy as np

from conoscope.causes.inference import exact_interval
from conoscope.common.errors import MeasureError
from conoscope.studies.intervals import FEWEST


def share_found(values: Sequence[float]) -> tuple[float, float] | None:
    """The exact 95 % interval of the share of ones (Clopper and Pearson 1934); None for too few seeds.

    A model is one draw, however many heads of it have what is looked for: heads of one model are not independent.
    """
    if any(value not in (0, 1) for value in values):
        raise MeasureError("a claim that something is found has values that are neither 0 nor 1; leave found=True out")
    if len(values) < FEWEST:
        return None
    low, high = exact_interval(np.array(round(sum(values))), np.array(len(values)))
    return float(low), float(high)
