"""Resampling: examples drawn anew, always the same draws, for 95 % intervals."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

INTERVAL = (0.025, 0.975)
AT_ONCE = 1 << 22
"""How many numbers are drawn at once: what bounds the memory."""


def weightings(examples: int, resamples: int, width: int) -> Iterator[Float[np.ndarray, "_ s"]]:
    """How often each example is drawn in each resample, some resamples at a time; `width`: the numbers that each takes."""
    chance = np.random.default_rng(0)
    step = max(1, AT_ONCE // max(width, examples, 1))
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = chance.integers(examples, size=(rows, examples)) + examples * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * examples).reshape(rows, examples).astype(np.float64)


def weightings_within(groups: Int[np.ndarray, " s"], resamples: int) -> Iterator[Float[np.ndarray, "_ s"]]:
    """How much each example weighs in each resample, drawn within its own group: each group weighs as much as it has examples.

    Of n examples n - 1 are drawn, each of the weight n / (n - 1) (Rao and Wu 1988): drawing all n would make the spread of a
    mean too small by (n - 1) / n, which is a half for groups of two. An example that is alone in its group is always there.
    """
    chance = np.random.default_rng(0)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    step = max(1, AT_ONCE // max(len(groups), 1))
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        weights = np.ones((rows, len(groups)))
        for here in members:
            drawn = len(here) - 1
            if drawn:
                places = chance.integers(len(here), size=(rows, drawn)) + len(here) * np.arange(rows)[:, None]
                times = np.bincount(places.ravel(), minlength=rows * len(here)).reshape(rows, len(here))
                weights[:, here] = times * (len(here) / drawn)
        yield weights
