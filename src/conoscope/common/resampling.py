"""Bootstrap resampling of examples with a fixed seed, for 95 % intervals."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

INTERVAL = (0.025, 0.975)
AT_ONCE = 1 << 22
"""How many numbers are drawn at once; this bounds the memory."""


def weightings(examples: int, resamples: int, width: int) -> Iterator[Float[np.ndarray, "_ s"]]:
    """How often each example is drawn in each resample, yielded in chunks; `width`: how many numbers a resample needs."""
    generator = np.random.default_rng(0)
    step = max(1, AT_ONCE // max(width, examples, 1))
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        indices = generator.integers(examples, size=(rows, examples)) + examples * np.arange(rows)[:, None]
        yield np.bincount(indices.ravel(), minlength=rows * examples).reshape(rows, examples).astype(np.float64)


def weightings_within(groups: Int[np.ndarray, " s"], resamples: int) -> Iterator[Float[np.ndarray, "_ s"]]:
    """The weight of each example in each stratified resample: every group keeps its total weight, its number of examples.

    From a group of n examples, n - 1 are drawn, each with the weight n / (n - 1) (Rao and Wu 1988). Drawing all n would make the
    variance of a mean too small by the factor (n - 1) / n, a half for groups of two. A group of one example always keeps it.
    """
    generator = np.random.default_rng(0)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    step = max(1, AT_ONCE // max(len(groups), 1))
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        weights = np.ones((rows, len(groups)))
        for group in members:
            draws = len(group) - 1
            if draws:
                indices = generator.integers(len(group), size=(rows, draws)) + len(group) * np.arange(rows)[:, None]
                counts = np.bincount(indices.ravel(), minlength=rows * len(group)).reshape(rows, len(group))
                weights[:, group] = counts * (len(group) / draws)
        yield weights
