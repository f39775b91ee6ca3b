"""Inference: intervals by a paired bootstrap over texts or Student's t, tests, Holm's correction, rank correlations."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from conoscope.common.resampling import INTERVAL, weightings

FEW = 30
"""Of fewer texts the interval is Student's: means of resampled texts spread too little."""


@dataclass(frozen=True)
class Paired:
    """Means over texts of differences that are paired text by text, a number for each column.

    `low`, `high`: 95 % intervals, over resampled texts or of fewer than FEW by Student's t; NaN without resamples, and of few
    texts that do not differ. `p`: two-sided, against 0.
    """

    value: Float[np.ndarray, " k"]
    sd: Float[np.ndarray, " k"]
    n: Float[np.ndarray, " k"]
    low: Float[np.ndarray, " k"]
    high: Float[np.ndarray, " k"]
    p: Float[np.ndarray, " k"]


def paired(differences: Float[np.ndarray, "n k"], resamples: int, counted: bool = False) -> Paired:
    """The means of differences; NaN is a text without a value. `counted`: whether they are of answers, -1, 0 or 1."""
    n = (~np.isnan(differences)).sum(0).astype(float)
    value, sd = _moments(differences)
    low, high = _by_t(value, sd, n) if resamples else np.full((2, len(n)), np.nan)
    many = n >= FEW
    if resamples and many.any():
        chosen = differences[:, many]
        drawn = [weighted_means(weights, chosen) for weights in weightings(len(chosen), resamples, chosen.shape[1])]
        low[many], high[many] = np.nanquantile(np.concatenate(drawn), INTERVAL, axis=0)
    signs = sign_test(differences)
    return Paired(value, sd, n, low, high, signs if counted else np.where(sd == 0, signs, t_test(value, sd, n)))


def _by_t(value: Float[np.ndarray, " k"], sd: Float[np.ndarray, " k"], n: Float[np.ndarray, " k"]) -> Float[np.ndarray, "2 k"]:
    """Student's intervals; NaN of one text, and of texts that do not differ: their spread is not known."""
    from scipy.stats import t

    with np.errstate(invalid="ignore", divide="ignore"):
        half = np.where(sd > 0, t.ppf(INTERVAL[1], n - 1) * sd / np.sqrt(n), np.nan)
    return np.stack((value - half, value + half))


def _moments(x: Float[np.ndarray, "n k"]) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Mean and standard deviation with n - 1; NaN where there are too few values."""
    known = ~np.isnan(x)
    n = known.sum(0).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, x, 0.0).sum(0) / n
        squares = np.where(known, (x - mean) ** 2, 0.0).sum(0)
        # The mean of equal numbers may be another by rounding.
        squares = np.where((~known | (x == np.where(known, x, -np.inf).max(0, initial=-np.inf))).all(0), 0.0, squares)
        return mean, np.where(n > 1, np.sqrt(squares / (n - 1)), np.nan)


def weighted_means(weights: Float[np.ndarray, "r n"], x: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "r k"]:
    """The mean of each column for each row of weights, over the texts that have a value; NaN where a resample has none."""
    known = ~np.isnan(x)
    total = weights @ known.astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Float[np.ndarray, "r k"] = weights @ np.where(known, x, 0.0) / total
    return means


def t_test(value: Float[np.ndarray, " k"], sd: Float[np.ndarray, " k"], n: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """Two-sided p of a paired t-test; NaN of one text."""
    from scipy.stats import t

    with np.errstate(invalid="ignore", divide="ignore"):
        p: Float[np.ndarray, " k"] = 2 * t.sf(np.abs(value) / (sd / np.sqrt(n)), n - 1)
    return p


def sign_test(differences: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " k"]:
    """Two-sided p of an exact sign test: of the differences that are not 0, how many are above; 1 where all are 0, NaN of no
    text."""
    from scipy.stats import binom

    above, below = (differences > 0).sum(0), (differences < 0).sum(0)
    p = np.minimum(2 * binom.cdf(np.minimum(above, below), above + below, 0.5), 1.0)
    return np.where(np.isnan(differences).all(0), np.nan, p)


def holm(p: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """Holm's adjusted p of one family: the i-th smallest of k times (k - i + 1), never less than a smaller one's, at most 1."""
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted


def rank_correlation(x: Float[np.ndarray, "r k"], y: Float[np.ndarray, "r k"]) -> Float[np.ndarray, " r"]:
    """Spearman's rank correlation of each row; NaN where all numbers of one are equal, or of fewer than three."""
    from scipy.stats import rankdata

    ranks = [rankdata(side, axis=-1) for side in (x, y)]
    one, other = (rank - rank.mean(-1, keepdims=True) for rank in ranks)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (one * other).sum(-1) / np.sqrt((one**2).sum(-1) * (other**2).sum(-1))
    return found if x.shape[-1] > 2 else np.full(len(x), np.nan)


def exact_interval(ones: Float[np.ndarray, "..."], n: Float[np.ndarray, "..."]) -> Float[np.ndarray, "2 ..."]:
    """The exact 95 % interval of a share of n, of which so many are ones (Clopper and Pearson 1934); 0 to 1 for n of 0."""
    from scipy.stats import beta

    ones, n = np.asarray(ones, float), np.asarray(n, float)
    low = beta.ppf(INTERVAL[0], np.maximum(ones, 0.5), n - ones + 1)
    high = beta.ppf(INTERVAL[1], ones + 1, np.maximum(n - ones, 0.5))
    return np.stack((np.where(ones > 0, low, 0.0), np.where(ones < n, high, 1.0)))
