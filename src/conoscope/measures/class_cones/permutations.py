"""Permutation test: the scores of the nearest-cone classifier when the sampled examples' labels are permuted."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from conoscope.measures.class_cones.directions import ROUNDING, Examples, nearest_class, order_of_size
from conoscope.sums.numeric import mixed

PERMUTATIONS = 200
"""The number of permutations."""
MANY, FEWER = 1 << 15, 2048
"""If classes × width exceeds the first, only this many examples are used, those with the smallest hashes."""
AT_ONCE = 1 << 21
"""The number of cosines held at once, which bounds the memory."""
DENSE = 8
"""Up to about this many times as many products, a matrix product is faster than summing rows one by one."""


@dataclass(frozen=True)
class Permuted:
    """The cross-fitted score of the true labels, the mask of scored examples, and the scores of permuted labels, NaN if a
    permutation leaves nothing to score."""

    observed: float
    scored: Bool[Tensor, " n"]
    scores: Float[Tensor, " b"]

    @property
    def p(self) -> float:
        """The p-value (1 + #{permuted ≥ observed}) / (1 + B); a permutation without a score counts as not smaller."""
        return (1 + int((~(self.scores < self.observed)).sum())) / (1 + len(self.scores))


def permuted(examples: Examples, count: int = PERMUTATIONS) -> Permuted | None:
    """The scores of the true and of permuted labels; None if there is only one class, or nothing to score."""
    # The largest class comes first, so that it wins ties.
    gold = order_of_size(examples.gold, int(examples.gold.max()) + 1).argsort()[examples.gold]
    some = slice(None if (int(gold.max()) + 1) * examples.units.shape[1] <= MANY else FEWER)
    gold, ranks = gold[some], examples.ranks[some]
    if (gold == gold[0]).all():
        return None
    labels = torch.cat((gold[None], gold[permutations(ranks, count)]))
    right, scored = cross_fitted(examples.units[some], ranks % 2, labels)
    score = right.sum(-1).double() / scored.sum(-1)
    if score[0].isnan() or score[1:].isnan().all():
        return None
    return Permuted(float(score[0]), pad(scored[0], (0, len(examples.gold) - len(ranks))), score[1:])


def permutations(ranks: Int[Tensor, " n"], count: int) -> Int[Tensor, "b n"]:
    """Permutations of the examples, each by another hash of their ids: independent of how the corpus was sharded or ordered."""
    keys = mixed(torch.arange(1, count + 1))[:, None]
    return mixed(ranks ^ keys).argsort(dim=-1, stable=True)


def cross_fitted(
    units: Float[Tensor, "n d"], half: Int[Tensor, " n"], labels: Int[Tensor, "b n"]
) -> tuple[Bool[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """For each row of labels: which examples are nearest to their own class, and which are scored at all.

    A class's direction is the mean of its unit vectors in one half, and it scores the examples of the other half; an example
    whose class has no direction in the first half is not scored.
    """
    right, scored = (torch.zeros(labels.shape, dtype=torch.bool) for _ in range(2))
    for fitted in range(2):
        fit, test = (half == fitted).nonzero()[:, 0], (half != fitted).nonzero()[:, 0]
        at = 0
        for cosines in _cosines(units[fit], units[test], labels[:, fit], int(labels.max()) + 1):
            own = labels[at : at + len(cosines), test]
            defined = ~cosines.gather(1, own[:, None])[:, 0].isnan()
            scored[at : at + len(own), test] = defined
            right[at : at + len(own), test] = defined & (nearest_class(cosines) == own)
            at += len(own)
    return right, scored


def _cosines(
    fit: Float[Tensor, "h d"], units: Float[Tensor, "m d"], labels: Int[Tensor, "b h"], classes: int
) -> Iterator[Float[Tensor, "_ c m"]]:
    """The cosines of `units` with the mean direction of each class in `fit`, some rows of labels at a time; NaN where a class has
    no direction."""
    dense = classes * fit.shape[1] <= DENSE * len(fit)
    between = None if dense else fit @ units.T
    for some in labels.split(max(1, AT_ONCE // max(1, classes * max(fit.shape)))):
        sums = _by_class(fit, some, classes)
        products = sums @ units.T if between is None else _by_class(between, some, classes)
        lengths = torch.linalg.vector_norm(sums, dim=-1, keepdim=True)
        yield (products / lengths).where(lengths > ROUNDING, torch.nan)


def _by_class(x: Float[Tensor, "h k"], labels: Int[Tensor, "b h"], classes: int) -> Float[Tensor, "b c k"]:
    """The sums of rows by class, for each row of labels."""
    if classes <= DENSE:
        return (labels[:, None] == torch.arange(classes)[:, None]).to(x.dtype) @ x
    # With many classes a product with zeros and ones would be slower.
    return torch.stack([x.new_zeros(classes, x.shape[1]).index_add_(0, row, x) for row in labels])
