"""Alignment: the word of the text that each token belongs to, and the position of a token."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from conoscope.corpora.base import Example

SPACE = np.array([chr(code).isspace() for code in range(0x3002)])
"""Which characters are white space; the last one stands for all that follow, none of which is."""


def place_of(token: int | None, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
    """The first position of a token in each row; -1 if it is not there."""
    matches = real & (ids == (-1 if token is None else token))
    return torch.where(matches.any(-1), matches.int().argmax(-1), -1)


def words_of(example: Example, offsets: Int[np.ndarray, "t 2"], sequence: Sequence[int | None]) -> Int[np.ndarray, " t"]:
    """For each token, the index of the whitespace word that contains its last character; -1 for none."""
    which = np.array(sequence, dtype=float)  # NaN for None
    starts, ends = offsets[:, 0], offsets[:, 1]
    words, first = np.full(len(offsets), -1), 0
    for number, text in enumerate((example.text, example.pair or "")):
        of_text = (which == number) & (ends > starts)
        of_character, count = _word_of_character(text)
        words[of_text] = np.where(of_character < 0, -1, of_character + first)[ends[of_text] - 1]
        first = count
    return words


def _word_of_character(text: str) -> tuple[Int[np.ndarray, " c"], int]:
    """For each character, the index of its whitespace word, -1 on white space; and the number of words."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    space = SPACE[np.minimum(codes, len(SPACE) - 1)]
    starts = ~space & np.concatenate(([True], space[:-1])) if len(text) else space
    words = np.cumsum(starts) - 1
    return np.where(space, -1, words), int(starts.sum())
