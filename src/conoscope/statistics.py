"""Statistics: frozen sums, and +.

The law, for every statistic S, any cut of the items and any order:

    S.of(a ++ b) == S.of(a) + S.of(b)      + is associative and commutative      S() is its zero

to 1e-12 relative, counts and samples exactly. Items lie along the first axis; the axes between it and a vector's
coordinates (heads, say) are kept. Sums are float64; within one batch they are taken in the model's own precision,
at least float32. `keep` says which items count.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def _zero() -> Any:
    return field(default_factory=lambda: torch.zeros((), dtype=torch.float64))


def _none() -> Any:
    return field(default_factory=lambda: torch.zeros((), dtype=torch.int64))


def at_least_single(x: Tensor) -> Tensor:
    """At least single precision, so that a sum over a batch of half-precision numbers is one."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Statistic(ABC):
    """Sums of some items. Subclasses are frozen dataclasses, and plain addition of their fields is their +."""

    kinds: ClassVar[dict[str, type["Statistic"]]] = {}

    def __init_subclass__(cls) -> None:
        Statistic.kinds[cls.__name__] = cls

    @classmethod
    @abstractmethod
    def of(cls, *items: Any) -> Self:
        """The sums of these items."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))  # type: ignore[arg-type]

    def state(self) -> dict[str, Tensor]:
        """Every number of it, by name, as tensors: what is saved."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def restore(cls, state: Mapping[str, Tensor]) -> Self:
        """The statistic that had this state."""
        return cls(**state)

    def to(self, device: torch.device) -> Self:
        """The same sums on another device."""
        return self.restore({name: tensor.to(device) for name, tensor in self.state().items()})


@dataclass(frozen=True)
class Directions(Statistic):
    """Σ of unit vectors, Σ of vectors, how many they were, and how many zero vectors were left out of all three."""

    units: Float[Tensor, "*s d"] = _zero()
    vectors: Float[Tensor, "*s d"] = _zero()
    count: Int[Tensor, "*s"] = _none()
    zeros: Int[Tensor, "*s"] = _none()

    @classmethod
    def of(cls, x: Float[Tensor, "n *s d"], keep: Bool[Tensor, "n *s"]) -> Self:
        """Sums over the first axis."""
        # As one product of matrices with the items inside, both sides laid out for it: an einsum copies every head's part.
        x, keep = at_least_single(x).movedim(0, -2), keep.movedim(0, -1)
        norms = torch.linalg.vector_norm(x, dim=-1)
        counts = keep & (norms > 0)
        weights = torch.stack((counts / norms.clamp_min(torch.finfo(norms.dtype).tiny), counts.to(x.dtype)), dim=-2)
        units, vectors = (weights @ x).double().unbind(-2)
        return cls(units, vectors, counts.sum(-1), (keep & (norms == 0)).sum(-1))

    def total(self) -> Self:
        """The sums over the first of the axes that were kept."""
        return type(self)(*(getattr(self, f.name).sum(0) for f in fields(self)))

    @property
    def sim(self) -> Float[Tensor, "*s"]:
        """Mean cosine of the pairs: (‖Σu‖² - n) / (n (n - 1)); NaN where there are no pairs."""
        n = self.count.double()
        return ((self.units.square().sum(-1) - n) / (n * (n - 1))).where(n > 1, torch.nan)


@dataclass(frozen=True)
class Gram(Statistic):
    """Σ x xᵀ and the number of vectors."""

    products: Float[Tensor, "*s d d"] = _zero()
    count: Int[Tensor, "*s"] = _none()

    @classmethod
    def of(cls, x: Float[Tensor, "n *s d"], keep: Bool[Tensor, "n *s"]) -> Self:
        """Sums over the first axis."""
        kept = at_least_single(x) * keep[..., None]
        return cls(torch.einsum("n...d,n...e->...de", kept, kept).double(), keep.sum(0))


@dataclass(frozen=True)
class Moments(Statistic):
    """How many numbers, their mean, and Σ (x - mean)²; numbers that are not defined (NaN) are counted apart."""

    count: Int[Tensor, "*s"] = _none()
    mean: Float[Tensor, "*s"] = _zero()
    scatter: Float[Tensor, "*s"] = _zero()
    undefined: Int[Tensor, "*s"] = _none()

    @classmethod
    def of(cls, x: Float[Tensor, "n *s"], keep: Bool[Tensor, "n *s"] | None = None) -> Self:
        """Sums over the first axis."""
        x, given = x.double(), torch.ones_like(x, dtype=torch.bool) if keep is None else keep
        defined = given & ~x.isnan()
        count = defined.sum(0)
        mean = x.where(defined, 0.0).sum(0) / count.clamp_min(1)
        scatter = (x - mean).where(defined, 0.0).square().sum(0)
        return cls(count, mean, scatter, (given & ~defined).sum(0))

    def __add__(self, other: Self) -> Self:
        count = self.count + other.count
        share = other.count.double() / count.clamp_min(1)
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter + gap.square() * self.count * share
        return type(self)(count, self.mean + gap * share, scatter, self.undefined + other.undefined)

    @property
    def sd(self) -> Float[Tensor, "*s"]:
        """The standard deviation, with n - 1; NaN for fewer than two numbers."""
        return (self.scatter / (self.count - 1)).where(self.count > 1, torch.nan).sqrt()


@dataclass(frozen=True)
class Histogram(Statistic):
    """How many numbers fell below the first edge, between each two, and at or above the last."""

    edges: Float[Tensor, " m"] = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    counts: Int[Tensor, "*s bins"] = _none()

    @classmethod
    def of(cls, x: Float[Tensor, "n *s"], keep: Bool[Tensor, "n *s"], edges: Sequence[float]) -> Self:
        """Counts over the first axis."""
        cuts = torch.tensor(edges, dtype=torch.float64, device=x.device)
        bins = torch.bucketize(x.double().contiguous(), cuts, right=True)
        counts = torch.zeros((*x.shape[1:], len(cuts) + 1), dtype=torch.int64, device=x.device)
        counts.scatter_add_(-1, bins.movedim(0, -1), (keep & ~x.isnan()).movedim(0, -1).long())
        return cls(cuts, counts)

    def __add__(self, other: Self) -> Self:
        if self.edges.numel() and other.edges.numel() and not torch.equal(self.edges, other.edges):
            raise ValueError("histograms of different edges do not add up")
        return type(self)(self.edges if self.edges.numel() else other.edges, self.counts + other.counts)


@dataclass(frozen=True)
class Sample(Statistic):
    """The `size` items with the smallest rank, in order: all of them while there are no more than `size`.

    With ranks that are hashes of the item's name this is a uniform sample, and the same one however the corpus was
    cut. Items of equal rank stand in the order of their values.
    """

    size: Int[Tensor, ""] = _none()
    ranks: Int[Tensor, " k"] = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    values: Float[Tensor, "k d"] = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.float64))

    @classmethod
    def of(cls, values: Float[Tensor, "n d"], ranks: Int[Tensor, " n"], size: int) -> Self:
        """The smallest of the first axis."""
        return cls(torch.tensor(size, device=ranks.device), *_smallest(ranks, values.double(), size))

    def __add__(self, other: Self) -> Self:
        if not other.size or not self.size:
            return self if self.size else other
        if self.size != other.size:
            raise ValueError("samples of different sizes do not add up")
        ranks, values = torch.cat((self.ranks, other.ranks)), torch.cat((self.values, other.values))
        return type(self)(self.size, *_smallest(ranks, values, int(self.size)))


def _smallest(ranks: Int[Tensor, " n"], values: Float[Tensor, "n d"], size: int) -> tuple[Tensor, Tensor]:
    columns = values.T.flip(0).cpu().numpy()
    order = torch.from_numpy(np.lexsort((*columns, ranks.cpu().numpy()))[:size]).to(ranks.device)
    return ranks[order], values[order]


@dataclass(frozen=True)
class ByKey(Statistic):
    """One statistic per key: per class, per token kind, per word."""

    parts: Mapping[str, Statistic] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Sequence[str], kind: type[Statistic], *arrays: Any) -> Self:
        """One statistic of `kind` for each key, of the items that have it; what is no tensor goes to each as it is."""
        where: dict[str, list[int]] = {}
        for position, key in enumerate(keys):
            where.setdefault(key, []).append(position)
        return cls({key: kind.of(*(a[at] if isinstance(a, Tensor) else a for a in arrays)) for key, at in where.items()})

    def __add__(self, other: Self) -> Self:
        shared = {key: self.parts[key] + part if key in self.parts else part for key, part in other.parts.items()}
        return type(self)({**self.parts, **shared})

    def state(self) -> dict[str, Tensor]:
        """Every part's numbers, under the part's kind and key."""
        return {
            f"{type(part).__name__}/{name}/{key}": tensor
            for key, part in sorted(self.parts.items())
            for name, tensor in part.state().items()
        }

    @classmethod
    def restore(cls, state: Mapping[str, Tensor]) -> Self:
        """The statistic that had this state."""
        grouped: dict[tuple[str, str], dict[str, Tensor]] = {}
        for path, tensor in state.items():
            kind, name, key = path.split("/", 2)
            grouped.setdefault((kind, key), {})[name] = tensor
        return cls({key: Statistic.kinds[kind].restore(tensors) for (kind, key), tensors in grouped.items()})
