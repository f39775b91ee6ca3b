"""Correlation by ranks."""

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDING = 2e-6
"""Numbers that differ by no more than this share of them are equal but for rounding, of norms in single precision."""


def ranks(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The rank of each number; equal numbers share the mean of theirs.

    Those that are equal but for rounding count as equal: [CLS] has the same value in every text, and which of them came out
    larger would depend on the batch.
    """
    ordered, order = x.double().sort()
    begins = torch.cat((torch.ones_like(ordered[:1], dtype=torch.bool), ordered.diff() > ROUNDING * ordered[1:].abs()))
    counts = torch.diff(begins.nonzero()[:, 0], append=torch.tensor([len(x)]))
    middle: Tensor = counts.cumsum(0).double() - (counts.double() - 1) / 2
    found = torch.empty_like(ordered)
    found[order] = middle.repeat_interleave(counts)
    return found


def spearman(x: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> float:
    """The correlation of ranks; NaN where there is none, as for equal numbers."""
    return float(torch.corrcoef(torch.stack((ranks(x), ranks(y))))[0, 1]) if len(x) > 2 else float("nan")
