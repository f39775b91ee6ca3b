"""Intervals: estimates over all sentences, and bootstrap intervals over resampled sentences."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from conoscope.common.resampling import INTERVAL, weightings
from conoscope.explaining.ranking import divided

RESAMPLES = 1000
Values = Mapping[Any, Float[np.ndarray, " r"]]


def estimated(
    values: Callable[[Float[np.ndarray, "r s"]], Values], sentences: int, resamples: int, width: int
) -> dict[Any, dict[str, float]]:
    """Each value over all sentences, with its interval over resamples of them."""
    whole = values(np.ones((1, sentences)))
    resamplings = [values(weights) for weights in weightings(sentences, resamples, width)]
    estimates = {}
    for key, value in whole.items():
        resampled = np.concatenate([some[key] for some in resamplings]) if resamplings else np.full(1, np.nan)
        defined = resampled[~np.isnan(resampled)]
        low, high = np.quantile(defined, INTERVAL) if len(defined) else (np.nan, np.nan)
        estimates[key] = {"value": float(value[0]), "low": float(low), "high": float(high)}
    return estimates


def mean_of(weights: Float[np.ndarray, "r s"], values: Float[np.ndarray, " s"]) -> Float[np.ndarray, " r"]:
    """The weighted mean over sentences that have a value, one for each row of weights; NaN where none has."""
    defined = ~np.isnan(values)
    total = weights @ defined.astype(np.float64)
    return divided(weights @ np.where(defined, values, 0.0), total)
