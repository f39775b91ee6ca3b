"""Capacity: how many class directions fit."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.measures.base import Part, Reading, reads
from conoscope.measures.class_cones.directions import ROUNDING
from conoscope.measures.needs import Need
from conoscope.sums.numeric import entropy_rank
from conoscope.sums.statistics import Directions

SITES = ("hidden", "key", "value")
DRAWS = 32
"""The number of random choices of k classes that are averaged."""
STEPS = (2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320)


def _parts() -> Iterator[Part]:
    for site in SITES:
        yield Part({"site": site}, False, {"sums": Need.of(Directions, "class_directions", site=site)})


@reads(_parts, within=(-1, 1), source="Fosse et al. 2023, discussion", labels=True)
def capacity(sums: Directions) -> Iterator[Reading]:
    """The largest cosine between the mean directions of k classes, against the number of classes.

    A mean over random choices of k classes; `mean` is the mean of all their cosines. `centred` is the largest cosine of the class
    means minus the mean of all classes. For comparison: `simplex`, the least possible for k directions, and `random`, the value
    for k random directions in this width. `effective_rank` is that of all class directions.
    """
    units = sums.total().units
    means = (units / sums.total().count[:, None])[sums.total().count > 0]
    count, width = means.shape
    plain, centred, rank = _cosines(means), _centred_cosines(means), entropy_rank(torch.linalg.svdvals(_directed(means)))
    for classes in sorted({*(step for step in STEPS if step < count), count} - {0, 1}):
        chosen = _choices(count, classes)
        largest, mean = _of_choices(plain, chosen)
        centred_largest, _ = _of_choices(centred, chosen)
        more: dict[str, Any] = {
            "mean": mean.mean(),
            "centred": centred_largest.mean(),
            "simplex": simplex(classes, width),
            "random": random_largest(classes, width),
            "effective_rank": rank,
        }
        spread = largest.std() if len(largest) > 1 else math.nan
        numbers = {key: float(value) for key, value in more.items()}
        row = Reading.of_one(largest.mean(), spread, len(largest), **numbers, width=width)
        yield row.with_keys(classes=classes)


def _directed(x: Float[Tensor, "c d"]) -> Float[Tensor, "c d"]:
    units: Tensor = torch.nn.functional.normalize(x, dim=-1)
    return units


def _cosines(x: Float[Tensor, "c d"]) -> Float[Tensor, "c c"]:
    return _directed(x) @ _directed(x).T


def _centred_cosines(x: Float[Tensor, "c d"]) -> Float[Tensor, "c c"]:
    """The cosines of vectors minus their mean; NaN where a difference is only rounding."""
    apart = x - x.mean(0)
    defined = torch.linalg.vector_norm(apart, dim=-1) > ROUNDING * torch.linalg.vector_norm(x, dim=-1)
    return _cosines(apart).where(defined[:, None] & defined, torch.nan)


def _choices(count: int, size: int) -> list[Tensor]:
    """The chosen sets of classes: all of them, or DRAWS random sets, the same each time."""
    draw = torch.Generator().manual_seed(size)
    return [torch.randperm(count, generator=draw)[:size] for _ in range(1 if size == count else DRAWS)]


def _of_choices(cosines: Float[Tensor, "c c"], chosen: list[Tensor]) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """The largest and the mean cosine of two different classes, for each choice."""
    pairs = [cosines[at][:, at][~torch.eye(len(at), dtype=torch.bool)] for at in chosen]
    return torch.stack([some.max() for some in pairs]), torch.stack([some.mean() for some in pairs])


def simplex(classes: int, width: int) -> float:
    """The smallest possible largest cosine of k directions: -1 / (k - 1) up to k = d + 1, then 0 up to 2 d.

    Beyond that it is above 0, by an amount that is not known in general; 0 is returned.
    """
    return -1 / (classes - 1) if classes <= width + 1 else 0.0


def random_largest(classes: int, width: int) -> float:
    """The median of the largest cosine of k random directions, if their k (k - 1) / 2 cosines were independent.

    One such cosine is t / √(t² + d - 1), with t from Student's distribution of d - 1 degrees of freedom, here by its expansion
    around the normal distribution.
    """
    z = float(torch.special.ndtri(torch.tensor(0.5, dtype=torch.float64) ** (2 / (classes * (classes - 1)))))
    free = max(1, width - 1)
    t = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return t / math.sqrt(t * t + free)
