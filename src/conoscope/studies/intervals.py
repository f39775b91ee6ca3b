"""Intervals over seeds: Student's t, on a scale without ends for what has a range, cut to the range for what moves in coarse
steps; exact for counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev

from conoscope.common.errors import MeasureError

FEWEST = 3
"""Smallest number of seeds for an interval."""
LEVEL = 0.95
SLACK = 1e-6
"""By how much of its range a value may lie outside: cosines are rounded."""


@dataclass(frozen=True)
class Scale:
    """The scale of a number: its range, if it has one, and the number of texts that it was measured on.

    A number v between a and b becomes logit((v - a) / (b - a)), which has no ends: for (-1, 1) that is twice Fisher's z. A number
    at an end, where the logit is infinite, is first moved inwards by half a text, (b - a) / (2 texts).

    `coarse` numbers have few possible values, of which the ends are some: a rank correlation over five points, a share of twelve
    heads. Half a text is far less than their steps, and the logit of an end would outweigh all else. They stay as they are, and
    their interval is cut to the range.
    """

    within: tuple[float, float] | None = None
    texts: int = 1000
    coarse: bool = False

    def unbounded(self, value: float) -> float:
        """The number on the scale without ends."""
        if self.within is None:
            return value
        low, high = self.within
        share = (value - low) / (high - low)
        if not -SLACK <= share <= 1 + SLACK:
            raise MeasureError(f"{value:g} is outside the range from {low:g} to {high:g}; give the claim or quantity its range")
        if self.coarse:
            return value
        half = 0.5 / max(self.texts, 2)
        share = half if share <= 0 else 1 - half if share >= 1 else share
        return log(share / (1 - share))

    def bounded(self, value: float) -> float:
        """The number from its place on the scale without ends."""
        if self.within is None:
            return value
        low, high = self.within
        if self.coarse:
            return min(max(value, low), high)
        share = 1 / (1 + exp(-value)) if value >= 0 else exp(value) / (1 + exp(value))
        return low + (high - low) * share


PLAIN = Scale()


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, freedom))


def interval(values: Sequence[float], scale: Scale = PLAIN, counts: bool = False) -> tuple[float, float] | None:
    """The 95 % interval of the mean over seeds: t on the scale, or exact for counts; None for too few seeds."""
    if len(values) < FEWEST:
        return None
    if counts:
        return poisson(values)
    return _around(values, scale, 1 / sqrt(len(values)))


def prediction(values: Sequence[float], scale: Scale = PLAIN, tolerance: float = 0.0) -> tuple[float, float] | None:
    """The 95 % interval of one further run, `tolerance` wider to either side; None for too few seeds."""
    if len(values) < FEWEST:
        return None
    low, high = _around(values, scale, sqrt(1 + 1 / len(values)))
    return low - tolerance, high + tolerance


def _around(values: Sequence[float], scale: Scale, factor: float) -> tuple[float, float]:
    free = [scale.unbounded(value) for value in values]
    middle, reach = fmean(free), t_quantile(len(free) - 1) * stdev(free) * factor
    # Values at an end were moved inwards: the interval still has the mean in it.
    low, high, mean = scale.bounded(middle - reach), scale.bounded(middle + reach), fmean(values)
    return min(low, mean), max(high, mean)


def poisson(values: Sequence[float]) -> tuple[float, float]:
    """The exact 95 % interval of the mean of Poisson counts (Garwood 1936)."""
    from scipy.stats import chi2

    if any(value < 0 or value != int(value) for value in values):
        raise MeasureError("a claim that counts has values that are no counts; leave counts=True out")
    total, tail = sum(values), (1 - LEVEL) / 2
    low = chi2.ppf(tail, 2 * total) / 2 if total else 0.0
    high = chi2.ppf(1 - tail, 2 * total + 2) / 2
    return float(low) / len(values), float(high) / len(values)
