"""Selecting: scores normalized within a sentence, and the words that they select."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from conoscope.common.errors import MeasureError
from conoscope.common.options import options_of

Scores = Float[np.ndarray, " w"]


def minmax(scores: Scores) -> Scores:
    """Scores scaled to [0, 1]; equal scores become all 1, or all 0 if they are 0."""
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.full_like(scores, float(high != 0))


def softmax_rescale(scores: Scores) -> Scores:
    """A softmax over the sentence, then scaled to [0, 1] (an option of the code of Fosse et al. 2023)."""
    shares = np.exp(scores - scores.max())
    return minmax(shares / shares.sum())


NORMALIZATIONS: dict[str, Callable[[Scores], Scores]] = {
    "minmax": minmax,
    "softmax_rescale": softmax_rescale,
    "none": lambda scores: scores,
}
BINARY = {"threshold": ("0.5", "0 to 1"), "top": (), "share": ("0.2", "0 to 1"), "mass": ("0.8", "0 to 1")}


@dataclass(frozen=True)
class Selection:
    """The rule by which scores select words.

    `threshold`: words whose scaled score reaches the amount. `top`: as many words as people marked. `share`: this share of the
    words. `mass`: the highest-scored words that together hold this share of the sum of scores.
    """

    kind: str
    amount: float

    @classmethod
    def of(cls, text: str) -> "Selection":
        """The selection that a text such as `threshold=0.5`, `top`, `share=0.2` or `mass=0.8` names."""
        kind, _, given = text.partition("=")
        try:
            amount = float(given or (BINARY[kind] or ("0",))[0])
            fits = 0 <= amount <= 1 and (kind != "top" or not given)
        except (KeyError, ValueError):
            fits = False
        if not fits:
            raise MeasureError(f"no way {text!r} to choose words; known: {options_of(BINARY)}")
        return cls(kind, amount)

    def chosen(self, scores: Scores, marked: Bool[np.ndarray, " w"]) -> Bool[np.ndarray, " w"]:
        """A mask of the words that the scores of a sentence select."""
        if self.kind == "threshold":
            return minmax(scores) >= self.amount
        taken = np.zeros(len(scores), dtype=bool)
        taken[np.argsort(-scores, kind="stable")[: self._count(scores, marked)]] = True
        return taken

    def _count(self, scores: Scores, marked: Bool[np.ndarray, " w"]) -> int:
        if self.kind == "top":
            return int(marked.sum())
        return share_of(len(scores), self.amount) if self.kind == "share" else self._prefix(scores)

    def _prefix(self, scores: Scores) -> int:
        """How many of the highest scores reach the share of the sum; negative scores count as 0."""
        masses = np.cumsum(np.sort(scores.clip(min=0))[::-1])
        return int(np.searchsorted(masses, self.amount * masses[-1] * (1 - 1e-12)) + 1)


def share_of(words: int, share: float) -> int:
    """The number of words in a share, rounded up, at least 1."""
    return min(words, max(1, int(np.ceil(words * share - 1e-9))))
