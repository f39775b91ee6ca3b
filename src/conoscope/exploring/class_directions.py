"""The mean directions of classes in the vectors' own dimensions, from the sums of a result."""

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.exploring.requests import RequestError
from conoscope.results.result import Result
from conoscope.sums.statistics import Directions

LEAST = 1e-6
"""Unit vectors whose sum is no longer cancel: what is left is rounding."""
BySite = dict[str, dict[int, Float[Tensor, "c d"]]]


def class_directions(result: Result) -> BySite:
    """Unit vectors of each class by site and layer, NaN for a class without one; RequestError if the result has no such sums."""
    tally = result.sums_of("class_directions")
    found: BySite = {}
    for need in tally.needs:
        for layer, sums in tally.of(need):
            assert isinstance(sums, Directions)
            units = sums.total().units
            lengths = torch.linalg.vector_norm(units, dim=-1, keepdim=True)
            found.setdefault(need.chosen["site"], {})[layer] = (units / lengths).where(lengths > LEAST, torch.nan)
    if not found:
        raise RequestError("this result has no directions of classes; measure again with -m class_cones, on labelled texts")
    return found
