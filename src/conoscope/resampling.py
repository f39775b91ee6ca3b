"""Resampling: examples drawn anew, always the same draws, for 95 % intervals."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

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
