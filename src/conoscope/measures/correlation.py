"""Rank correlation."""

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDING = 2e-6
"""Numbers whose relative difference is at most this are equal up to rounding, for norms in single precision."""


def ranks(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The rank of each number; equal numbers share their mean rank.

    Numbers that are equal up to rounding count as equal: [CLS] has the same value in every text, and which one came out larger
    would depend on the batch.
    """
    ordered, order = x.double().sort()
    begins = torch.cat((torch.ones_like(ordered[:1], dtype=torch.bool), ordered.diff() > ROUNDING * ordered[1:].abs()))
    counts = torch.diff(begins.nonzero()[:, 0], append=torch.tensor([len(x)]))
    middle: Tensor = counts.cumsum(0).double() - (counts.double() - 1) / 2
    shared = torch.empty_like(ordered)
    shared[order] = middle.repeat_interleave(counts)
    return shared


def spearman(x: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> float:
    """Spearman's rank correlation; NaN where it is undefined, as for equal numbers."""
    return float(torch.corrcoef(torch.stack((ranks(x), ranks(y))))[0, 1]) if len(x) > 2 else float("nan")
