"""Representatives: one direction for each class, and the cosines of examples with them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from conoscope.capture.batch import Memo
from conoscope.sums.samples import First, Sample
from conoscope.sums.statistics import Covariance, Directions

KINDS = ("first", "mean", "held_out", "medoid")
ROUNDING = 1e-6
"""Directions that differ by less count as the same: [CLS] of layer 0 is one vector for all texts, up to rounding."""
TIED = 1e-9
"""Classes whose cosines with an example differ by no more are tied: sums of the same vectors in another order differ so."""


@dataclass(frozen=True)
class Examples:
    """Sampled examples of one layer and site: their vectors, labels, predicted classes and names."""

    units: Float[Tensor, "n d"]
    norms: Float[Tensor, " n"]
    gold: Int[Tensor, " n"]
    predicted: Int[Tensor, " n"]
    ranks: Int[Tensor, " n"]
    names: list[str]

    @property
    def half(self) -> Int[Tensor, " n"]:
        """The half of the corpus that each example belongs to, by hash of its id."""
        return self.ranks % 2

    @property
    def differ(self) -> bool:
        """Whether any two directions differ."""
        return len(self.units) > 0 and bool((self.units - self.units[0]).abs().max() > ROUNDING)

    @classmethod
    def of(cls, sample: Sample) -> "Examples":
        """The examples of a sample of `class_vectors`; zero vectors have no direction and are left out."""
        norms = torch.linalg.vector_norm(sample.values[:, :-2].double(), dim=-1)
        nonzero = norms > 0
        x, known = sample.values[nonzero, :-2].double(), sample.values[nonzero, -2:].long()
        names = [name for name, kept in zip(sample.texts(), nonzero.tolist(), strict=True) if kept]
        return cls(normalize(x, dim=-1), norms[nonzero], known[:, 0], known[:, 1], sample.ranks[nonzero], names)


@dataclass(frozen=True)
class Cones(Memo):
    """The class cones of one layer and site: sums by half of the corpus and class, and examples.

    Directions are rows of unit vectors, one a class; NaN for a class that has none.
    """

    sums: Directions
    spread: Covariance | None
    correct: First | None
    examples: Examples | None

    @property
    def directions(self) -> Directions:
        """The sums of both halves, by class."""
        return self.sums.total()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.sums.units.shape[1]

    def of_kind(self, kind: str) -> Float[Tensor, "c d"]:
        """The representatives: `first` correct example, `mean` direction, `medoid`."""
        found: Tensor = self.memo(("representatives", kind), lambda: self._representatives(kind))
        return found

    def _representatives(self, kind: str) -> Float[Tensor, "c d"]:
        if kind == "mean":
            return directed(self.directions.units)
        found = torch.full_like(self.directions.units, torch.nan)
        if kind == "first" and self.correct is not None:
            found[self.correct.groups] = normalize(self.correct.values.double(), dim=-1)
        if kind == "medoid" and self.examples is not None:
            for number, at in self.medoids().items():
                found[number] = self.examples.units[at]
        return found

    def medoids(self) -> dict[int, int]:
        """The index of each sampled class's medoid among the examples."""
        assert self.examples is not None
        units, gold, names = self.examples.units, self.examples.gold, self.examples.names

        def compute() -> dict[int, int]:
            members = {number: (gold == number).nonzero()[:, 0] for number in gold.unique().tolist()}
            return {number: int(at[medoid(units[at], [names[i] for i in at])]) for number, at in members.items()}

        found: dict[int, int] = self.memo("medoids", compute)
        return found

    def of_halves(self) -> Float[Tensor, "2 c d"]:
        """The mean directions of each half of the corpus."""
        return directed(self.sums.units)

    def cosines(self, kind: str) -> Float[Tensor, "n c"]:
        """The cosine of every sampled example with every representative; NaN where the example is the representative itself.

        For `mean` the mean direction is that of the other examples, for `held_out` that of the other half of the corpus.
        """
        cosines: Tensor = self.memo(("cosines", kind), lambda: self._cosines(kind))
        return cosines

    def _cosines(self, kind: str) -> Float[Tensor, "n c"]:
        assert self.examples is not None
        units, gold = self.examples.units, self.examples.gold
        if kind == "held_out":
            both = torch.einsum("nd,hcd->nhc", units, self.of_halves())
            return both[torch.arange(len(units)), 1 - self.examples.half]
        if kind == "mean":
            return without_itself(units, gold, self.directions.units)
        return (units @ self.of_kind(kind).T).where(~self.itself(kind), torch.nan)

    def centred_cosines(self, kind: str) -> Float[Tensor, "n c"]:
        """The cosines around the mean of the representatives, without what all classes share; for `first` or `held_out`.

        cos(u - m, r - m) with m the mean over classes of r; NaN for one class, and where a representative is m up to rounding.
        """
        assert self.examples is not None
        directions = self.of_halves().flip(0) if kind == "held_out" else self.of_kind(kind)[None]
        mean = directions.nanmean(1, keepdim=True)
        around = directions - mean
        parts = directed(around.where(torch.linalg.vector_norm(around, dim=-1, keepdim=True) > ROUNDING, 0.0))
        half = self.examples.half if kind == "held_out" else torch.zeros_like(self.examples.half)
        units = self.examples.units
        both = torch.stack([normalize(units - m, dim=-1) @ part.T for m, part in zip(mean, parts, strict=True)], dim=1)
        return both[torch.arange(len(units)), half].where(~self.cosines(kind).isnan(), torch.nan)

    def itself(self, kind: str) -> Bool[Tensor, "n c"]:
        """A mask of the sampled examples that are themselves the representative of a class."""
        assert self.examples is not None
        own = self.examples.gold[:, None] == torch.arange(self.classes)
        if kind == "medoid":
            chosen = torch.tensor([self.medoids()[number] for number in self.examples.gold.tolist()])
            return own & (chosen == torch.arange(len(chosen)))[:, None]
        names = set() if self.correct is None or kind != "first" else set(self.correct.texts())
        near = (self.examples.units * self.of_kind(kind)[self.examples.gold]).sum(-1, keepdim=True) > 1 - ROUNDING
        return own & near & torch.tensor([name in names for name in self.examples.names])[:, None]


def directed(sums: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    """The unit vectors of sums; NaN where there is none."""
    length: Tensor = torch.linalg.vector_norm(sums, dim=-1, keepdim=True)
    # Unit vectors that cancel leave only rounding.
    return (sums / length).where(length > ROUNDING, torch.nan)


def nearest_class(cosines: Float[Tensor, "k c *m"]) -> Int[Tensor, "k *m"]:
    """The class with the largest cosine along the second axis, the first of tied ones; NaN is never the nearest."""
    known = cosines.nan_to_num(nan=-torch.inf)
    return (known >= known.amax(1, keepdim=True) - TIED).byte().argmax(1)


def order_of_size(gold: Int[Tensor, " n"], classes: int) -> Int[Tensor, " c"]:
    """The classes by their number of examples, largest first; ties by class number."""
    return gold.bincount(minlength=classes).argsort(descending=True, stable=True)


def medoid(units: Float[Tensor, "n d"], names: Sequence[str]) -> int:
    """The index of the vector whose median cosine with the others is largest.

    Ties, up to ROUNDING, are broken by the largest mean cosine; then, up to ROUNDING, by the first name.
    """
    if len(units) < 2:
        return 0
    cosines = (units @ units.T).fill_diagonal_(0.0)
    means, best = cosines.sum(-1) / (len(units) - 1), torch.arange(len(units))
    for scores in (_median_of_others(cosines), means):
        best = best[scores[best] >= scores[best].max() - ROUNDING]
    left: list[int] = best.tolist()
    return min(left, key=lambda at: names[at])


def _median_of_others(cosines: Float[Tensor, "n n"]) -> Float[Tensor, " n"]:
    """The median of each row without the diagonal; for an even number, the mean of the middle two."""
    last, others = cosines.fill_diagonal_(torch.inf), len(cosines) - 1
    low, high = (last.kthvalue(place, dim=-1).values for place in ((others + 1) // 2, others // 2 + 1))
    return (low + high) / 2


def without_itself(units: Float[Tensor, "n d"], gold: Int[Tensor, " n"], sums: Float[Tensor, "c d"]) -> Float[Tensor, "n c"]:
    """The cosine of each vector with the sum of each class, without the vector itself in its own class.

    u · (S - u) / ‖S - u‖ = (u · S - 1) / √(‖S‖² - 2 u · S + 1).
    """
    products, squares = units @ sums.T, sums.square().sum(-1).expand(len(units), -1)
    own = gold[:, None] == torch.arange(len(sums))
    lengths = (squares - 2 * products + 1).where(own, squares).clamp_min(0).sqrt()
    # A class of one example has no direction without it: the remainder is rounding.
    return ((products - own.double()) / lengths).where(lengths > 1e-6, torch.nan)
