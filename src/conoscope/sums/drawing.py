"""Drawing: which items of the coming batches will be in a sample, known before they are computed.

A sample keeps the items of smallest rank, and ranks are hashes of names and positions. So a look at the names and positions of
several batches, in the CPU's memory, shows which of their items can stay: only those are computed, and nothing is computed to be
dropped a few batches later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from conoscope.sums.samples import Sample, choose

Names = Callable[[Int[Tensor, " m"]], UInt8[Tensor, "m w"]]


@dataclass(frozen=True)
class Candidates:
    """Items of one batch that a sample could hold, all tensors in the CPU's memory: their groups and ranks, and `at`, the flat
    indices of tokens or the rows of examples. `names`: a function of indices among the candidates. The sample keeps `size` items
    of each group, of the `most` first groups."""

    groups: Int[Tensor, " n"]
    ranks: Int[Tensor, " n"]
    at: Int[Tensor, " n"]
    names: Names
    size: int
    most: int


@dataclass(frozen=True)
class Chosen:
    """The candidates of one batch that stay."""

    groups: Int[Tensor, " n"]
    ranks: Int[Tensor, " n"]
    at: Int[Tensor, " n"]
    names: UInt8[Tensor, "n w"]
    limits: tuple[int, int]

    @property
    def count(self) -> int:
        """How many there are."""
        return self.at.shape[0]

    def items(self, which: Bool[Tensor, " n"]) -> "Chosen":
        """Some of them."""
        return Chosen(self.groups[which], self.ranks[which], self.at[which], self.names[which], self.limits)

    @classmethod
    def of_all(cls, parts: Sequence["Chosen"]) -> "Chosen":
        """Those of several batches of one sample, one after the other."""
        fields = ("groups", "ranks", "at", "names")
        groups, ranks, at, names = (torch.cat([getattr(part, name) for part in parts]) for name in fields)
        return cls(groups, ranks, at, names, parts[0].limits)


@dataclass
class Draw:
    """The groups and ranks of the items that one sample holds so far."""

    groups: Int[Tensor, " k"] = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    ranks: Int[Tensor, " k"] = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    @classmethod
    def of(cls, sample: Sample | None) -> "Draw":
        """The draw that led to a sample."""
        return cls() if sample is None else cls(sample.groups.cpu(), sample.ranks.cpu())

    def choose(self, batches: Sequence[Candidates]) -> list[Chosen]:
        """The candidates of each batch that are in the sample after the last batch, with all that tie with them."""
        if not batches:
            return []
        limits = (batches[0].size, batches[0].most)
        groups, ranks = torch.cat([each.groups for each in batches]), torch.cat([each.ranks for each in batches])
        admitted = Sample(torch.tensor(limits), self.groups, self.ranks).admits(groups, ranks).nonzero()[:, 0]
        groups, ranks = groups[admitted], ranks[admitted]
        both = torch.cat((self.groups, groups)), torch.cat((self.ranks, ranks))
        kept = choose(*both, limits)
        after = Sample(torch.tensor(limits), both[0][kept], both[1][kept])
        self.groups, self.ranks = after.groups, after.ranks
        stays = after.admits(groups, ranks).nonzero()[:, 0]
        begins = torch.tensor([0, *(len(each.at) for each in batches)]).cumsum(0)
        batch = torch.searchsorted(begins, admitted[stays], right=True) - 1
        stays, batch = (x[_in_order(batch, groups[stays], ranks[stays], limits[0])] for x in (stays, batch))
        groups, ranks, index = groups[stays], ranks[stays], admitted[stays] - begins[batch]
        ends = torch.searchsorted(batch, torch.arange(len(batches) + 1)).tolist()
        chosen = []
        for each, begin, end in zip(batches, ends, ends[1:], strict=False):
            here = index[begin:end]
            chosen.append(Chosen(groups[begin:end], ranks[begin:end], each.at[here], each.names(here), limits))
        return chosen


def _in_order(batch: Int[Tensor, " n"], groups: Int[Tensor, " n"], ranks: Int[Tensor, " n"], size: int) -> Int[Tensor, " m"]:
    """Indices of items by batch, group and rank; at most `size` of one batch and group: if all names are the same, all items
    tie."""
    order = torch.from_numpy(np.lexsort((ranks.numpy(), groups.numpy(), batch.numpy())))
    if len(order) <= size:
        return order
    batch, groups, places = batch[order], groups[order], torch.arange(len(order))
    new = torch.ones_like(places, dtype=torch.bool)
    new[1:] = (batch[1:] != batch[:-1]) | (groups[1:] != groups[:-1])
    found: Tensor = order[places - places.where(new, 0).cummax(0).values < size]
    return found
