"""Resampling: 95 % intervals by drawing sentences anew, always the same draws."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from conoscope.explaining.ranking import divided

RESAMPLES = 1000
INTERVAL = (0.025, 0.975)
AT_ONCE = 1 << 22
"""How many numbers are drawn at once: what bounds the memory."""

Values = Mapping[Any, Float[np.ndarray, " r"]]


def weightings(sentences: int, resamples: int, width: int) -> Iterator[Float[np.ndarray, "_ s"]]:
    """How often each sentence is drawn in each resample, some resamples at a time; `width`: the numbers that each takes."""
    chance = np.random.default_rng(0)
    step = max(1, AT_ONCE // max(width, sentences, 1))
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = chance.integers(sentences, size=(rows, sentences)) + sentences * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def estimated(
    values: Callable[[Float[np.ndarray, "r s"]], Values], sentences: int, resamples: int, width: int
) -> dict[Any, dict[str, float]]:
    """Each value of all sentences, with its interval over resamples of them."""
    whole = values(np.ones((1, sentences)))
    drawn = [values(weights) for weights in weightings(sentences, resamples, width)]
    found = {}
    for key, value in whole.items():
        resampled = np.concatenate([some[key] for some in drawn]) if drawn else np.full(1, np.nan)
        defined = resampled[~np.isnan(resampled)]
        low, high = np.quantile(defined, INTERVAL) if len(defined) else (np.nan, np.nan)
        found[key] = {"value": float(value[0]), "low": float(low), "high": float(high)}
    return found


def mean_of(weights: Float[np.ndarray, "r s"], values: Float[np.ndarray, " s"]) -> Float[np.ndarray, " r"]:
    """The mean over the sentences that have a value, by rows of weights; NaN where none has."""
    defined = ~np.isnan(values)
    total = weights @ defined.astype(np.float64)
    return divided(weights @ np.where(defined, values, 0.0), total)
