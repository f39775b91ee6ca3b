"""Alignment: which word of the text each token belongs to, and where a token stands."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from conoscope.corpora.base import Example


def place_of(token: int | None, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
    """Where a token first stands in each row, -1 for nowhere."""
    here = real & (ids == (-1 if token is None else token))
    return torch.where(here.any(-1), here.int().argmax(-1), -1)


def words_of(example: Example, offsets: np.ndarray, sequence: Sequence[int | None]) -> np.ndarray:
    """For each token, the number of the whitespace word that holds its last character."""
    which = np.array([-1 if text is None else text for text in sequence])
    starts, ends = offsets[:, 0], offsets[:, 1]
    words, first = np.full(len(offsets), -1), 0
    for number, text in enumerate((example.text, example.pair or "")):
        of_text = (which == number) & (ends > starts)
        words[of_text] = _word_of_character(text, first)[ends[of_text] - 1]
        first = len(text.split())
    return words


def _word_of_character(text: str, first: int) -> np.ndarray:
    """For each character, the number of its whitespace word, counted from `first`; -1 on white space."""
    space = np.fromiter((c.isspace() for c in text), dtype=bool, count=len(text))
    starts = ~space & np.concatenate(([True], space[:-1])) if len(text) else space
    return np.where(space, -1, first + np.cumsum(starts) - 1)
