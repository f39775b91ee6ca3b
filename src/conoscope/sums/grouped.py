"""Moments by group of texts: what a mean is without the texts of one group tells how far it would be elsewhere with others.

A group holds the texts whose ids have the same hash modulo GROUPS. So it holds the same texts in every run on a corpus, however
the corpus was cut, and two runs can be compared group by group.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from conoscope.sums.statistics import Moments, Statistic, empty

GROUPS = 64


@dataclass(frozen=True)
class GroupedMoments(Statistic):
    """Count, mean and Σ (x - mean)² of the numbers of each group of texts; undefined numbers (NaN) are counted over all."""

    count: Int[Tensor, "*s g"] = empty(dtype=torch.int64)
    mean: Float[Tensor, "*s g"] = empty()
    scatter: Float[Tensor, "*s g"] = empty()
    undefined: Int[Tensor, "*s"] = empty(dtype=torch.int64)

    @classmethod
    def of(
        cls,
        groups: Int[Tensor, "n *_"],
        x: Float[Tensor, "n *s"],
        keep: Shaped[Tensor, "n *s"] | None = None,
        scatter: Float[Tensor, "n *s"] | None = None,
    ) -> Self:
        """Sums over the first axis; `groups`: the group of each item, the same for all layers.

        `keep`: which items count; or of how many numbers each item is the mean, with `scatter`, Σ (x - mean)² of these numbers.
        """
        x, index = x.double(), groups.flatten(1)[:, 0] if groups.ndim > 1 else groups
        given = torch.ones_like(x) if keep is None else keep.double()
        defined = ~x.isnan() & (given > 0)
        weights, x = given.where(defined, 0.0), x.where(defined, 0.0)
        count = _by_group(weights, index)
        mean = _by_group(x * weights, index) / count.clamp_min(1)
        squares = (x - mean.index_select(0, index)).square_().mul_(weights)
        if scatter is not None:
            squares += scatter.double().where(defined, 0.0)
        undefined = (given > weights).sum(0)
        count, mean, apart = (sums.movedim(0, -1) for sums in (count, mean, _by_group(squares, index)))
        return cls(count.long(), mean, apart, undefined)

    def __add__(self, other: Self) -> Self:
        one, two = (Moments(each.count, each.mean, each.scatter, torch.zeros_like(each.count)) for each in (self, other))
        both = one + two
        return type(self)(both.count, both.mean, both.scatter, self.undefined + other.undefined)

    def total(self) -> Moments:
        """The moments over all groups."""
        return self.of_groups(torch.ones(self.count.shape[-1], dtype=torch.bool))

    def of_groups(self, some: Bool[Tensor, " g"]) -> Moments:
        """The moments over some groups."""
        # Sums over an axis that lies otherwise in memory, as before it is saved, have other last digits.
        counts, means, scatters = (x.contiguous() for x in (self.count.where(some, 0), self.mean, self.scatter.where(some, 0.0)))
        count = counts.sum(-1)
        mean = (means * counts).sum(-1) / count.clamp_min(1)
        apart = scatters + (means - mean[..., None]).square() * counts
        return Moments(count, mean, apart.sum(-1), self.undefined)


def _by_group(x: Float[Tensor, "n *s"], groups: Int[Tensor, " n"]) -> Float[Tensor, "g *s"]:
    """The sum of each group's items."""
    if x.device.type == "cpu":
        sums: Tensor = x.new_zeros((GROUPS, *x.shape[1:])).index_add_(0, groups, x)
        return sums
    # On a GPU index_add adds in another order each time; a product does not.
    return _by_product(x, groups)


def _by_product(x: Float[Tensor, "n *s"], groups: Int[Tensor, " n"]) -> Float[Tensor, "g *s"]:
    which = groups == torch.arange(GROUPS, device=x.device)[:, None]
    product: Tensor = which.to(x.dtype) @ x.flatten(1)
    return product.view(GROUPS, *x.shape[1:])
