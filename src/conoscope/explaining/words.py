"""From tokens to words: a whitespace word's score is the sum, or the maximum, of its tokens' scores."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conoscope.capture.batch import Batch

WORD_SCORES = ("sum", "max")


def word_scores(
    scores: Float[Tensor, "b t"], batch: Batch, counts: Sequence[int], reduction: str
) -> list[Float[np.ndarray, "_"]]:
    """The word scores of each example; NaN for a word without a token (truncated). `counts`: the number of words of each."""
    places = torch.where(batch.word >= 0, batch.word, max(counts, default=0)).cpu()
    width = max(counts, default=0) + 1
    kind = {"sum": "sum", "max": "amax"}[reduction]
    empty = torch.zeros(len(counts), width, dtype=torch.float64)
    reduced = empty.scatter_reduce(1, places, scores.detach().double().cpu(), kind, include_self=False)
    rows = np.where(seen_words(batch, width), reduced.numpy(), np.nan)
    return [row[:count] for row, count in zip(rows, counts, strict=True)]


def seen_words(batch: Batch, width: int) -> Bool[np.ndarray, "b width"]:
    """Which of the first `width` words of each example have a token."""
    seen = torch.zeros(len(batch.word), width + 1, dtype=torch.bool)
    seen.scatter_(1, torch.where(batch.word >= 0, batch.word, width).cpu(), True)
    return seen[:, :width].numpy()
