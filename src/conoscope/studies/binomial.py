"""The exact interval of a share of models, for claims that something is found in most of them."""

from collections.abc import Sequence

from conoscope.common.errors import MeasureError
from conoscope.studies.intervals import FEWEST, LEVEL


def share_found(values: Sequence[float]) -> tuple[float, float] | None:
    """The exact 95 % interval of the share of ones (Clopper and Pearson 1934); None for too few seeds.

    A model is one draw, however many heads of it have what is looked for: heads of one model are not independent.
    """
    from scipy.stats import beta

    if any(value not in (0, 1) for value in values):
        raise MeasureError("a claim that something is found has values that are neither 0 nor 1; leave found=True out")
    if len(values) < FEWEST:
        return None
    n, tail = len(values), (1 - LEVEL) / 2
    ones = round(sum(values))
    low = float(beta.ppf(tail, ones, n - ones + 1)) if ones else 0.0
    high = float(beta.ppf(1 - tail, ones + 1, n - ones)) if ones < n else 1.0
    return low, high
