"""Drawing: which items of the coming batches will be in a sample, known before they are computed.

A sample keeps the items of smallest rank, and ranks are hashes of names and positions. So a look at the names and positions of
several batches, in the CPU's memory, shows which of their items can stay: only those are computed, and nothing is computed to be
dropped a few batches later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
        size, most = limits = (batches[0].size, batches[0].most)
        so_far = Sample(torch.tensor(limits), self.groups, self.ranks)
        admitted = [so_far.admits(each.groups, each.ranks).nonzero()[:, 0] for each in batches]
        groups = torch.cat([each.groups[at] for each, at in zip(batches, admitted, strict=True)])
        ranks = torch.cat([each.ranks[at] for each, at in zip(batches, admitted, strict=True)])
        both = torch.cat((self.groups, groups)), torch.cat((self.ranks, ranks))
        kept = choose(*both, limits)
        after = Sample(torch.tensor(limits), both[0][kept], both[1][kept])
        self.groups, self.ranks = after.groups, after.ranks
        chosen, begin = [], 0
        for each, at in zip(batches, admitted, strict=True):
            here = slice(begin, begin + len(at))
            begin = here.stop
            stays = after.admits(groups[here], ranks[here]).nonzero()[:, 0]
            # At most as many as the sample holds: if all names are the same, all items tie.
            stays = stays[choose(groups[here][stays], ranks[here][stays], limits)]
            index = at[stays]
            chosen.append(Chosen(each.groups[index], each.ranks[index], each.at[index], each.names(index), (size, most)))
        return chosen
