"""Statistics that are not plain sums: samples of items by hash, constants, one statistic per key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor

from conoscope.sums.statistics import Statistic, empty

NAME_BYTES = 64
"""Maximum length of an item's name in UTF-8; a longer name loses its middle."""
BEGINNING_BYTES = 128
"""How many bytes of an item's text are kept after its name, if any."""


@dataclass(frozen=True)
class Sample(Statistic):
    """The `size` items of smallest rank in each group, for the `most` groups of smallest number.

    If ranks are hashes of the items' names, this is a uniform sample. It is complete while a group has at most `size` items, and
    it does not depend on how the corpus was split. Items are sorted by group, then rank; items of equal rank by their values.
    """

    limits: Int[Tensor, " m"] = empty(0, dtype=torch.int64)
    groups: Int[Tensor, " k"] = empty(0, dtype=torch.int64)
    ranks: Int[Tensor, " k"] = empty(0, dtype=torch.int64)
    values: Float[Tensor, "k d"] = empty(0, 0)
    names: UInt8[Tensor, "k w"] = empty(0, NAME_BYTES, dtype=torch.uint8)

    @classmethod
    def of(
        cls,
        groups: Int[Tensor, " n"],
        ranks: Int[Tensor, " n"],
        values: Float[Tensor, "n d"],
        names: UInt8[Tensor, "n w"],
        size: int,
        most: int,
    ) -> Self:
        """Sample of the items along the first axis."""
        return cls(torch.tensor((size, most), device=groups.device), groups, ranks, values, names)._chosen()

    def __add__(self, other: Self) -> Self:
        if not (len(self.limits) and len(other.limits)):
            return self if len(self.limits) else other
        if not torch.equal(self.limits, other.limits):
            raise ValueError("samples of different sizes do not add up")
        if not len(other.groups):
            return self
        groups, ranks, values = (torch.cat((getattr(self, name), getattr(other, name))) for name in ("groups", "ranks", "values"))
        # A sample of an earlier version may hold only names, while this one also holds the beginnings of texts.
        width = max(self.names.shape[1], other.names.shape[1])
        names = [torch.nn.functional.pad(rows, (0, width - rows.shape[1])) for rows in (self.names, other.names)]
        return type(self)(self.limits, groups, ranks, values, torch.cat(names))._chosen()

    def _chosen(self) -> Self:
        chosen = choose(self.groups, self.ranks, self.limits.tolist(), self.values)
        return type(self)(self.limits, self.groups[chosen], self.ranks[chosen], self.values[chosen], self.names[chosen])

    def admits(self, groups: Int[Tensor, " n"], ranks: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """Which items could still enter the sample: + would drop all others."""
        if not len(self.groups):
            return torch.ones_like(ranks, dtype=torch.bool)
        size, most = self.limits.tolist()
        if most == 1 and self.groups[0] == self.groups[-1] and bool((groups == self.groups[0]).all()):
            return ranks <= self.ranks[-1] if len(self.groups) == size else torch.ones_like(ranks, dtype=torch.bool)
        known, counts = self.groups.unique_consecutive(return_counts=True)
        worst = self.ranks[counts.cumsum(0) - 1].where(counts == size, torch.iinfo(torch.int64).max)
        place = torch.searchsorted(known, groups).clamp_max(len(known) - 1)
        new = known[place] != groups
        room = len(known) < most or groups < known[-1]
        return torch.where(new, room, ranks <= worst[place])

    def texts(self) -> list[str]:
        """The names of the items."""
        return _texts_of(self.names[:, :NAME_BYTES])

    def beginnings(self) -> list[str]:
        """The beginnings of the items' texts; empty strings if none were kept."""
        return _texts_of(self.names[:, NAME_BYTES:])


def _texts_of(rows: UInt8[Tensor, "n w"]) -> list[str]:
    return [bytes(row).rstrip(b"\0").decode("utf-8", "replace") for row in rows.cpu().numpy()]


def no_names(index: Int[Tensor, " n"]) -> UInt8[Tensor, "n w"]:
    """Empty names, for items that need none."""
    return torch.zeros(len(index), NAME_BYTES, dtype=torch.uint8)


def names_of(texts: Sequence[str]) -> UInt8[Tensor, "n w"]:
    """Names as rows of UTF-8 bytes, which a sample can keep."""
    rows = np.zeros((len(texts), NAME_BYTES), dtype=np.uint8)
    for row, text in zip(rows, texts, strict=True):
        whole = text.encode("utf-8", "replace")
        if len(whole) > NAME_BYTES:
            ends = whole[: NAME_BYTES // 2], whole[3 - NAME_BYTES // 2 :]
            whole = "…".join(end.decode("utf-8", "ignore") for end in ends).encode()
        row[: len(whole)] = np.frombuffer(whole, dtype=np.uint8)
    return torch.from_numpy(rows)


def beginnings_of(texts: Sequence[str]) -> UInt8[Tensor, "n w"]:
    """The beginnings of texts as rows of UTF-8 bytes, white space as single spaces; a cut text ends in an ellipsis."""
    rows = np.zeros((len(texts), BEGINNING_BYTES), dtype=np.uint8)
    for row, text in zip(rows, texts, strict=True):
        # A character takes at least one byte, so later ones cannot fit.
        whole = " ".join(text[: 4 * BEGINNING_BYTES].split()).encode("utf-8", "replace")
        if len(whole) > BEGINNING_BYTES:
            whole = (whole[: BEGINNING_BYTES - 3].decode("utf-8", "ignore") + "…").encode()
        row[: len(whole)] = np.frombuffer(whole, dtype=np.uint8)
    return torch.from_numpy(rows)


def choose(
    groups: Int[Tensor, " n"],
    ranks: Int[Tensor, " n"],
    limits: Sequence[int],
    values: Float[Tensor, "n d"] | None = None,
) -> Int[Tensor, " m"]:
    """Indices of the items that a sample with these limits (`size`, `most`) keeps, in its order; equal ranks by `values`."""
    size, most = limits
    group, rank = groups.cpu().numpy(), ranks.cpu().numpy()
    order = _smallest(group, rank, size)
    order = order[np.lexsort((rank[order], group[order]))]
    equal = (np.diff(group[order]) == 0) & (np.diff(rank[order]) == 0)
    if values is not None and equal.any():
        order = np.lexsort((*values.T.flip(0).cpu().numpy(), rank, group))
    sorted_groups = group[order]
    begins = np.concatenate(([True], sorted_groups[1:] != sorted_groups[:-1])) if len(order) else np.zeros(0, dtype=bool)
    within = np.arange(len(order)) - np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    kept = order[(within < size) & (begins.cumsum() <= most)]
    return torch.from_numpy(kept).to(groups.device)


def _smallest(group: Int[np.ndarray, " n"], rank: Int[np.ndarray, " n"], size: int) -> Int[np.ndarray, " m"]:
    """Indices of the items that can be among the `size` of smallest rank of their group; of all if there are several groups."""
    if len(rank) <= 2 * size or (group != group[0]).any():
        return np.arange(len(rank))
    return np.flatnonzero(rank <= np.partition(rank, size - 1)[size - 1])


MOST_TIES = 256


def staying(groups: Int[Tensor, " n"], ranks: Int[Tensor, " n"], limits: Sequence[int]) -> Int[Tensor, " m"]:
    """Indices of the items that a sample with these limits may keep: all that tie with one that it keeps, since the items' values
    settle that. If very many tie, as where all names are the same, only as many as it holds: memory stays bounded."""
    kept = choose(groups, ranks, limits)
    worst = Sample(torch.tensor(tuple(limits)), groups[kept], ranks[kept])
    stays = worst.admits(groups, ranks).nonzero()[:, 0]
    return stays if len(stays) <= 2 * len(kept) + MOST_TIES else kept


NONE = torch.iinfo(torch.int64).max
"""The place of an item that is not there."""


@dataclass(frozen=True)
class First(Statistic):
    """Of each class the item of the smallest place: its place, NONE if there is none, its vector and its name."""

    places: Int[Tensor, "*s c"] = empty(0, dtype=torch.int64)
    vectors: Float[Tensor, "*s c d"] = empty(0, 0)
    tags: UInt8[Tensor, "*s c w"] = empty(0, NAME_BYTES, dtype=torch.uint8)

    @classmethod
    def of(
        cls,
        labels: Int[Tensor, "n *s"],
        places: Int[Tensor, "n *s"],
        vectors: Float[Tensor, "n *s d"],
        names: UInt8[Tensor, "n *s w"],
        classes: int,
    ) -> Self:
        """The first item of each class along the first axis; items of class -1 do not count."""
        label, place = labels.movedim(0, -1), places.movedim(0, -1)
        # A last row takes what does not count, so that nothing is asked of a GPU.
        index = label.where(label >= 0, classes)
        best = place.new_full((*label.shape[:-1], classes + 1), NONE).scatter_reduce(-1, index, place, "amin")
        index = index.where(place == best.gather(-1, index), classes)
        found = [_put(x.movedim(0, -2), index, classes) for x in (vectors, names)]
        return cls(best[..., :-1], *found)

    def __add__(self, other: Self) -> Self:
        if not (self.places.numel() and other.places.numel()):
            return self if self.places.numel() else other
        later = other.places < self.places
        return type(self)(
            torch.where(later, other.places, self.places),
            torch.where(later[..., None], other.vectors, self.vectors),
            torch.where(later[..., None], other.tags, self.tags),
        )

    @property
    def groups(self) -> Int[Tensor, " k"]:
        """The classes that have an item."""
        return (self.places < NONE).nonzero()[:, 0]

    @property
    def values(self) -> Float[Tensor, "k d"]:
        """The vectors of these classes' items."""
        return self.vectors[self.groups]

    def texts(self) -> list[str]:
        """The names of these classes' items."""
        return _texts_of(self.tags[self.groups])


def _put(x: Shaped[Tensor, "*s n d"], index: Int[Tensor, "*s n"], classes: int) -> Shaped[Tensor, "*s c d"]:
    """Items at their class's row; row `classes` is dropped."""
    rows = x.new_zeros((*x.shape[:-2], classes + 1, x.shape[-1]))
    return rows.scatter(-2, index[..., None].expand_as(x), x)[..., :-1, :]


@dataclass(frozen=True)
class Constant(Statistic):
    """Numbers that are equal for all items up to rounding, such as those of the model's weights: + keeps one operand."""

    value: Float[Tensor, "*s"] = empty(0)

    @classmethod
    def of(cls, value: Float[Tensor, "*s"]) -> Self:
        """The numbers in float64."""
        return cls(value.double())

    def __add__(self, other: Self) -> Self:
        return self if self.value.numel() else other


@dataclass(frozen=True)
class ByKey(Statistic):
    """One statistic per key: per class, per token kind, per word."""

    parts: Mapping[str, Statistic] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Sequence[str], kind: type[Statistic], *arrays: Any) -> Self:
        """One statistic of `kind` for each key, over the items with that key; arguments that are not tensors go to each."""
        where: dict[str, list[int]] = {}
        for position, key in enumerate(keys):
            where.setdefault(key, []).append(position)
        return cls({key: kind.of(*(a[at] if isinstance(a, Tensor) else a for a in arrays)) for key, at in where.items()})

    def __add__(self, other: Self) -> Self:
        shared = {key: self.parts[key] + part if key in self.parts else part for key, part in other.parts.items()}
        return type(self)({**self.parts, **shared})

    def state(self) -> dict[str, Tensor]:
        """All tensors of all parts, keyed by the part's kind, the field and the part's key."""
        return {
            f"{type(part).__name__}/{name}/{key}": tensor
            for key, part in sorted(self.parts.items())
            for name, tensor in part.state().items()
        }

    @classmethod
    def restore(cls, state: Mapping[str, Tensor]) -> Self:
        """The statistic with this state."""
        grouped: dict[tuple[str, str], dict[str, Tensor]] = {}
        for path, tensor in state.items():
            kind, name, key = path.split("/", 2)
            grouped.setdefault((kind, key), {})[name] = tensor
        return cls({key: Statistic.kinds[kind].restore(tensors) for (kind, key), tensors in grouped.items()})
