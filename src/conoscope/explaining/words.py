"""From tokens to words: a whitespace word's score is the sum, or the largest, of its tokens' scores."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conoscope.capture.batch import Batch

WORD_SCORES = ("sum", "max")


def word_scores(scores: Float[Tensor, "b t"], batch: Batch, counts: Sequence[int], how: str) -> list[Float[np.ndarray, "_"]]:
    """The scores of each example's words, of which there are so many; NaN for a word that has no token (cut off)."""
    places = torch.where(batch.word >= 0, batch.word, max(counts, default=0)).cpu()
    width = max(counts, default=0) + 1
    kind = {"sum": "sum", "max": "amax"}[how]
    empty = torch.zeros(len(counts), width, dtype=torch.float64)
    summed = empty.scatter_reduce(1, places, scores.detach().double().cpu(), kind, include_self=False)
    found = np.where(seen_words(batch, width), summed.numpy(), np.nan)
    return [row[:count] for row, count in zip(found, counts, strict=True)]


def seen_words(batch: Batch, width: int) -> Bool[np.ndarray, "b width"]:
    """Which of the first `width` words of each example have a token."""
    seen = torch.zeros(len(batch.word), width + 1, dtype=torch.bool)
    seen.scatter_(1, torch.where(batch.word >= 0, batch.word, width).cpu(), True)
    return seen[:, :width].numpy()
