"""Statistics: frozen sums with +.

The law, for every statistic S, any cut of the items and any order:

    S.of(a ++ b) == S.of(a) + S.of(b)      + is associative and commutative      S() is its zero

to 1e-12 relative, counts and samples exactly. Items lie along the first axis; the axes between it and a vector's
coordinates (heads, for example) are kept. Sums are float64; within one batch they are computed in the model's own precision,
at least float32. `keep` is a mask of the items that count.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.sums.numeric import at_least_single


def empty(*shape: int, dtype: torch.dtype = torch.float64) -> Any:
    """A dataclass field that is zero in the empty statistic."""
    return field(default_factory=lambda: torch.zeros(shape, dtype=dtype))


def _zero() -> Any:
    return empty()


def _none() -> Any:
    return empty(dtype=torch.int64)


BLOCKS = 4
DENSE = 2**20
"""Whole numbers below this are counted in an array of all of them."""


class Statistic(ABC):
    """Base class of sums over items. Subclasses are frozen dataclasses; by default + adds field by field."""

    kinds: ClassVar[dict[str, type["Statistic"]]] = {}
    shared: ClassVar[tuple[str, ...]] = ()
    """The fields that are the same for every index of the kept axes, such as the edges of a histogram."""
    symmetric: ClassVar[tuple[str, ...]] = ()
    """The fields that are symmetric matrices."""

    def __init_subclass__(cls) -> None:
        Statistic.kinds[cls.__name__] = cls

    @classmethod
    @abstractmethod
    def of(cls, *items: Any) -> Self:
        """The sums of these items."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))  # type: ignore[arg-type]

    def state(self) -> dict[str, Tensor]:
        """All fields as tensors by name, for saving."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def restore(cls, state: Mapping[str, Tensor]) -> Self:
        """The statistic with this state."""
        return cls(**state)

    @property
    def numel(self) -> int:
        """How many numbers it holds."""
        return sum(tensor.numel() for tensor in self.state().values())

    def at(self, place: int | slice) -> Self:
        """The sums at one index, or at some, of the first kept axis."""
        return type(self)(*(tensor if name in self.shared else tensor[place] for name, tensor in self.state().items()))

    def to(self, device: torch.device) -> Self:
        """The same statistic on another device."""
        return self.restore({name: tensor.to(device) for name, tensor in self.state().items()})


@dataclass(frozen=True)
class Directions(Statistic):
    """Σ of unit vectors, Σ of vectors, their count, and the number of zero vectors, which the first three exclude."""

    units: Float[Tensor, "*s d"] = _zero()
    vectors: Float[Tensor, "*s d"] = _zero()
    count: Int[Tensor, "*s"] = _none()
    zeros: Int[Tensor, "*s"] = _none()

    @classmethod
    def of(cls, x: Float[Tensor, "n *#s d"], keep: Bool[Tensor, "n *s"] | None = None) -> Self:
        """Sums over the first axis; without `keep` all vectors count."""
        keep = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device) if keep is None else keep
        # One matrix product over the items, both factors in the layout it needs: an einsum would copy each head's part.
        x, keep = at_least_single(x).movedim(0, -2), keep.movedim(0, -1)
        norms = torch.linalg.vector_norm(x, dim=-1)
        counts = keep & (norms > 0)
        weights = torch.stack((counts / norms.clamp_min(torch.finfo(norms.dtype).tiny), counts.to(x.dtype)), dim=-2)
        units, vectors = (weights @ x).double().unbind(-2)
        return cls(units, vectors, counts.sum(-1), (keep & (norms == 0)).sum(-1))

    def total(self) -> Self:
        """The sums over the first kept axis."""
        return type(self)(*(getattr(self, f.name).sum(0) for f in fields(self)))

    @property
    def unit(self) -> Float[Tensor, "*s d"]:
        """The mean direction as a unit vector; zero if the sum is zero."""
        direction: Tensor = torch.nn.functional.normalize(self.units, dim=-1)
        return direction

    @property
    def sim(self) -> Float[Tensor, "*s"]:
        """Mean pairwise cosine: (‖Σu‖² - n) / (n (n - 1)); NaN if there are no pairs."""
        n = self.count.double()
        return ((self.units.square().sum(-1) - n) / (n * (n - 1))).where(n > 1, torch.nan)


@dataclass(frozen=True)
class Gram(Statistic):
    """Σ x xᵀ, Σ x, the number of vectors, and a bound on the rounding error in Σ x xᵀ, of the sums or of the vectors."""

    symmetric: ClassVar[tuple[str, ...]] = ("products",)
    products: Float[Tensor, "*s d d"] = _zero()
    vectors: Float[Tensor, "*s d"] = _zero()
    count: Int[Tensor, "*s"] = _none()
    rounding: Float[Tensor, "*s"] = _zero()

    @classmethod
    def of(cls, x: Float[Tensor, "n *#s d"], keep: Bool[Tensor, "n *s"] | None = None) -> Self:
        """Sums over the first axis; without `keep` all vectors count."""
        # In float64: float32 products lose what is small beside a common direction or a huge coordinate.
        kept = (x if keep is None else x * keep[..., None]).double()
        count = torch.full(kept.shape[1:-1], len(kept), device=x.device) if keep is None else keep.sum(0)
        products = _squared(kept)
        share = max(torch.finfo(torch.float64).eps, torch.finfo(at_least_single(x).dtype).eps ** 2)
        return cls(products, kept.sum(0), count, products.diagonal(dim1=-2, dim2=-1).sum(-1) * share)

    @cached_property
    def spectrum(self) -> Float[Tensor, "*s d"]:
        """Singular values of the matrix whose rows are the vectors, largest first; values below the rounding error, and beyond
        the number of vectors, are 0."""
        squares: Tensor = torch.linalg.eigvalsh(self.products).flip(-1)
        width = squares.shape[-1]
        significant = squares > self.rounding[..., None]
        within_count = torch.arange(width, device=squares.device) < self.count[..., None]
        return squares.where(significant & within_count, 0.0).sqrt()


def _squared(x: Float[Tensor, "n *s d"]) -> Float[Tensor, "*s d d"]:
    """Σ x xᵀ over the first axis; on a CPU, for wide vectors, only one side of the diagonal is computed, in blocks."""
    x = x.movedim(0, -2)
    width = x.shape[-1]
    if width < BLOCKS * 64 or x.device.type != "cpu":
        return x.mT @ x
    products = x.new_empty((*x.shape[:-2], width, width))
    for start in range(0, width, step := -(-width // BLOCKS)):
        block = slice(start, start + step)
        products[..., block, start:] = x[..., block].mT @ x[..., start:]
        products[..., start:, block] = products[..., block, start:].mT
    return products


@dataclass(frozen=True)
class Moments(Statistic):
    """Count, mean and Σ (x - mean)² of some numbers; undefined numbers (NaN) are counted separately."""

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
        """The standard deviation with n - 1; NaN for fewer than two numbers."""
        return (self.scatter / (self.count - 1)).where(self.count > 1, torch.nan).sqrt()


@dataclass(frozen=True)
class Range(Statistic):
    """Minimum and maximum of some numbers; undefined numbers (NaN) do not count."""

    low: Float[Tensor, "*s"] = field(default_factory=lambda: torch.tensor(torch.inf, dtype=torch.float64))
    high: Float[Tensor, "*s"] = field(default_factory=lambda: torch.tensor(-torch.inf, dtype=torch.float64))

    @classmethod
    def of(cls, x: Float[Tensor, "n *s"], keep: Bool[Tensor, "n *s"]) -> Self:
        """Minimum and maximum over the first axis; infinite without items."""
        if not len(x):
            return cls()
        defined = keep & ~x.isnan()
        ends = x.where(defined, torch.inf).amin(0), x.where(defined, -torch.inf).amax(0)
        return cls(*(end.double() for end in ends))

    def __add__(self, other: Self) -> Self:
        return type(self)(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))


@dataclass(frozen=True)
class Counts(Statistic):
    """How often each whole number occurs."""

    keys: Int[Tensor, " k"] = empty(0, dtype=torch.int64)
    counts: Int[Tensor, " k"] = empty(0, dtype=torch.int64)

    @classmethod
    def of(cls, keys: Int[Tensor, " n"], keep: Bool[Tensor, " n"]) -> Self:
        """Counts of the kept keys."""
        kept = keys[keep]
        if len(kept) and 0 <= int(kept.min()) <= int(kept.max()) < DENSE:  # as ids of tokens are; much faster
            counts = torch.bincount(kept)
            found = counts.nonzero()[:, 0]
            return cls(found, counts[found])
        return cls(*kept.unique(return_counts=True))

    def __add__(self, other: Self) -> Self:
        keys, where = torch.cat((self.keys, other.keys)).unique(return_inverse=True)
        counts = torch.zeros_like(keys).index_add(0, where, torch.cat((self.counts, other.counts)))
        return type(self)(keys, counts)


@dataclass(frozen=True)
class Covariance(Statistic):
    """Count, mean and Σ (x - mean) (x - mean)ᵀ of some vectors: Moments for vectors."""

    symmetric: ClassVar[tuple[str, ...]] = ("scatter",)
    count: Int[Tensor, "*s"] = _none()
    mean: Float[Tensor, "*s d"] = _zero()
    scatter: Float[Tensor, "*s d d"] = _zero()

    @classmethod
    def of(cls, x: Float[Tensor, "n *#s d"], keep: Bool[Tensor, "n *s"]) -> Self:
        """Sums over the first axis."""
        x, weights, count = x.double(), keep.double(), keep.sum(0)
        mean = (x * weights[..., None]).sum(0) / count.clamp_min(1)[..., None]
        centred = (x - mean) * weights[..., None]
        return cls(count, mean, _squared(centred))

    def __add__(self, other: Self) -> Self:
        count = self.count + other.count
        share = (other.count.double() / count.clamp_min(1))[..., None]
        gap = other.mean - self.mean
        scatter = (self.scatter + other.scatter).addcmul_((gap * share * self.count[..., None])[..., None], gap[..., None, :])
        return type(self)(count, self.mean + gap * share, scatter)


def _counts(x: Int[Tensor, " n"], size: int) -> Int[Tensor, " size"]:
    """How often each number from 0 to `size` - 1 occurs; bincount would wait for a GPU."""
    if x.device.type == "cpu":
        return torch.bincount(x, minlength=size)
    return torch.zeros(size, dtype=torch.int64, device=x.device).scatter_add_(0, x, torch.ones_like(x))


@dataclass(frozen=True)
class Histogram(Statistic):
    """How many numbers lie below the first of equally spaced edges, between each two, and at or above the last."""

    shared: ClassVar[tuple[str, ...]] = ("edges",)
    edges: Float[Tensor, " m"] = empty(0)
    counts: Int[Tensor, "*s bins"] = _none()

    @classmethod
    def of(cls, x: Float[Tensor, "n *s"], keep: Bool[Tensor, "n *#s"], first: float, step: float, edges: int) -> Self:
        """Counts over the first axis; undefined numbers (NaN) are in no bin."""
        cells, bins = x.shape[1:].numel(), edges + 1
        # One extra bin at the end takes what does not count. `long` truncates, which rounds down since no number is negative.
        places = (x - first).mul_(1 / step).add_(1).clamp_(0, edges).nan_to_num_(nan=-1.0).long()
        keep = keep.reshape(keep.shape + (1,) * (x.ndim - keep.ndim))
        counted = torch.where(
            keep & (places >= 0), places + torch.arange(cells, device=x.device).view(x.shape[1:]) * bins, cells * bins
        )
        counts = _counts(counted.flatten(), cells * bins + 1)[:-1]
        # In the CPU's memory, so that comparing edges does not wait for a GPU.
        at = first + step * torch.arange(edges, dtype=torch.float64)
        return cls(at, counts.reshape(*x.shape[1:], bins))

    def __add__(self, other: Self) -> Self:
        if self.edges.numel() and other.edges.numel() and not torch.equal(self.edges, other.edges):
            raise ValueError("histograms of different edges do not add up")
        return type(self)(self.edges if self.edges.numel() else other.edges, self.counts + other.counts)
