"""Alignment: the word of the text that each token belongs to, and the position of a token."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from conoscope.corpora.base import Example


def place_of(token: int | None, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
    """The first position of a token in each row; -1 if it is not there."""
    matches = real & (ids == (-1 if token is None else token))
    return torch.where(matches.any(-1), matches.int().argmax(-1), -1)


def words_of(example: Example, offsets: np.ndarray, sequence: Sequence[int | None]) -> np.ndarray:
    """For each token, the index of the whitespace word that contains its last character; -1 for none."""
    which = np.array([-1 if text is None else text for text in sequence])
    starts, ends = offsets[:, 0], offsets[:, 1]
    words, first = np.full(len(offsets), -1), 0
    for number, text in enumerate((example.text, example.pair or "")):
        of_text = (which == number) & (ends > starts)
        words[of_text] = _word_of_character(text, first)[ends[of_text] - 1]
        first = len(text.split())
    return words


def _word_of_character(text: str, first: int) -> np.ndarray:
    """For each character, the index of its whitespace word, counted from `first`; -1 on white space."""
    space = np.fromiter((c.isspace() for c in text), dtype=bool, count=len(text))
    starts = ~space & np.concatenate(([True], space[:-1])) if len(text) else space
    return np.where(space, -1, first + np.cumsum(starts) - 1)
