"""The domains of the spike protein, and their shares of attention."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float

DOMAINS: Mapping[str, tuple[int, int]] = {
    "SP": (1, 13),
    "S1": (14, 685),
    "NTD": (14, 305),
    "RBD": (319, 541),
    "S2": (686, 1273),
    "FP": (788, 806),
    "HR1": (912, 984),
    "HR2": (1163, 1213),
    "TM": (1213, 1237),
    "CT": (1237, 1273),
}
"""First and last amino acid, counted from 1; S1 contains NTD and RBD, S2 the domains after it."""
BASES, K, STRIDE = 3, 12, 9
"""Bases per amino acid, bases per k-mer, and bases between the starts of two k-mers."""


def places(domain: str, words: int) -> Bool[np.ndarray, " w"]:
    """Which of the k-mers contain a base of the domain."""
    first, last = DOMAINS[domain]
    begins = STRIDE * np.arange(words)
    inside: np.ndarray = (begins + K > BASES * (first - 1)) & (begins < BASES * last)
    return inside


def shares(scores: Float[np.ndarray, " w"]) -> Iterator[tuple[str, float]]:
    """Each domain's share of the sum of the scores; nothing if the sum is 0."""
    total = scores.sum()
    for domain in DOMAINS:
        if total > 0 and (inside := places(domain, len(scores))).any():
            yield domain, float(scores[inside].sum() / total)


def variety(texts: Sequence[Sequence[str]]) -> Float[np.ndarray, " w"]:
    """Variation between texts at each position: the entropy of the words there."""
    counts = [np.array(list(Counter(words).values())) / len(texts) for words in zip(*texts, strict=True)]
    return np.array([-(share * np.log(share)).sum() for share in counts])
