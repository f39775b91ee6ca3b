"""The residual stream: what a layer adds to its input, and the distribution of its output's coordinates."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.draws import sampled_tokens
from conoscope.quantities.base import Arrays, quantity, real_tokens
from conoscope.sums.drawing import Candidates
from conoscope.sums.numeric import at_least_single
from conoscope.sums.samples import no_names

STREAM = ("cosine", "residual_share", "attention_share", "forward_share", "mean", "variance", "kurtosis")
"""The values that `stream` computes for each sampled token, in this order."""
DRAWN = 8
"""How many tokens of a sentence are sampled."""
PAIRS = 512
"""The number of tokens of the corpus whose vectors before and after a layer are kept."""
Rows = Float[Tensor, "l n _h _e"] | None


def _tokens(batch: Batch, **options: str) -> Int[Tensor, " n"]:
    return sampled_tokens(batch, "real", DRAWN)


@quantity(tokens=_tokens)
def stream(
    hidden_rows: Float[Tensor, "l n h d"],
    before_rows: Rows = None,
    output_rows: Rows = None,
    forward_rows: Rows = None,
) -> Arrays:
    """The values that STREAM names, of each sampled token; NaN for what the layer does not have. The site is always `hidden`.

    Sites of another width than the output are left out: a layer that projects its input first does not add to it.
    """
    y = at_least_single(hidden_rows.flatten(2))
    parts = [
        None if x is None or x.shape != hidden_rows.shape else at_least_single(x.flatten(2))
        for x in (before_rows, output_rows, forward_rows)
    ]
    length: Tensor = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
    none = torch.full_like(length, torch.nan)
    norms = [none if x is None else torch.linalg.vector_norm(x, dim=-1, keepdim=True) for x in parts]
    cosine = none if parts[0] is None else (parts[0] * y).sum(-1, keepdim=True) / (norms[0] * length)
    return (torch.cat((cosine, _shares(torch.cat(norms, dim=-1)), _coordinates(y)), dim=-1),)


def _shares(norms: Float[Tensor, "l n 3"]) -> Float[Tensor, "l n 3"]:
    """The share of each part in the sum of norms, over the parts that the layer has; NaN if it has fewer than two."""
    total = norms.nansum(-1, keepdim=True)
    return norms / total.where((~norms.isnan()).sum(-1, keepdim=True) > 1, torch.nan)


def _coordinates(y: Float[Tensor, "l n d"]) -> Float[Tensor, "l n 3"]:
    """Mean, variance and excess kurtosis of each vector's coordinates; a constant vector has no kurtosis."""
    mean = y.mean(-1, keepdim=True)
    squares = (y - mean).square()
    variance = squares.mean(-1, keepdim=True)
    return torch.cat((mean, variance, (squares / variance).square().mean(-1, keepdim=True) - 3), dim=-1)


def _pairs(batch: Batch) -> Candidates:
    at, ranks = real_tokens(batch)
    return Candidates(torch.zeros_like(ranks), ranks, at, no_names, PAIRS, 1)


@quantity(sample=_pairs, sparse=True)
def stream_pairs(
    before_rows: Float[Tensor, "l n h d"], hidden_rows: Float[Tensor, "l n h e"]
) -> Float[Tensor, "l n both"] | None:
    """The vectors of some tokens of the corpus, sampled by hash, before and after the layer."""
    if before_rows.shape != hidden_rows.shape:
        return None
    return at_least_single(torch.cat((before_rows.flatten(2), hidden_rows.flatten(2)), dim=-1))
