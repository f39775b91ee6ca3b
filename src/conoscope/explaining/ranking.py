"""Ranking: how well scores put marked words before the others, ties counted as ties, for many weightings at once."""

import numpy as np
from jaxtyping import Bool, Float


class Ranking:
    """Words in the order of their scores, the highest first; those of equal score form one step.

    Each metric takes rows of weights, one weight a word (a resample is such a row), and returns one number a row.
    """

    def __init__(self, scores: Float[np.ndarray, " n"], marked: Bool[np.ndarray, " n"]) -> None:
        self._order = np.argsort(-scores, kind="stable")
        sorted_scores = scores[self._order]
        self._begins = np.flatnonzero(np.concatenate(([True], sorted_scores[1:] != sorted_scores[:-1])))
        self._marked = marked[self._order]

    def metrics(self, weights: Float[np.ndarray, "r n"]) -> dict[str, Float[np.ndarray, " r"]]:
        """Area under the ROC curve, and average precision."""
        hits, others = self._steps(weights * 1.0)
        return {"auroc": _auroc(hits, others), "auprc": _average_precision(hits, others)}

    def _steps(self, weights: Float[np.ndarray, "r n"]) -> tuple[Float[np.ndarray, "r g"], Float[np.ndarray, "r g"]]:
        """The weight of marked words, and of others, in each step."""
        sorted_weights = weights[:, self._order]
        return tuple(np.add.reduceat(sorted_weights * kind, self._begins, axis=1) for kind in (self._marked, ~self._marked))  # type: ignore[return-value]


def _auroc(hits: Float[np.ndarray, "r g"], others: Float[np.ndarray, "r g"]) -> Float[np.ndarray, " r"]:
    """The share of (marked, unmarked) pairs of words in which the marked one ranks first; a tie counts half."""
    before = np.cumsum(hits, axis=1) - hits / 2
    return divided((before * others).sum(1), hits.sum(1) * others.sum(1))


def _average_precision(hits: Float[np.ndarray, "r g"], others: Float[np.ndarray, "r g"]) -> Float[np.ndarray, " r"]:
    """Σ (recall gained in a step) × (precision after it)."""
    found, taken = np.cumsum(hits, axis=1), np.cumsum(hits + others, axis=1)
    precision = np.divide(found, taken, out=np.zeros_like(found), where=taken > 0)
    return divided((hits * precision).sum(1), hits.sum(1))


def divided(above: Float[np.ndarray, "*s"], below: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """above / below; NaN where `below` is not positive."""
    shares: np.ndarray = np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) > 0)
    return shares
