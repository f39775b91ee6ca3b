"""Directions: how much the vectors of a sentence, or of the corpus, point one way, and how long they are."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch, Memo
from conoscope.capture.draws import mask_of, sampled_tokens
from conoscope.quantities.base import Arrays, quantity
from conoscope.quantities.reductions import kept, whole_norms
from conoscope.sums.statistics import Directions

CONES = ("sim", "intra_sim", "cone_index", "cone_share", "sum_norm")
"""What `cones` computes for each sentence, in this order."""
NORM_EDGES = (-10.0, 1 / 16, 24 * 16 + 1)
"""Of log2 ‖x‖: from 0.001 to 16,384, sixteen to an octave, so that a length grows by 4 % from one edge to the next."""
DRAWN = 16
"""How many tokens of a sentence the histogram counts."""


def of_width(totals: Float[Tensor, "l b k d"], lengths: Float[Tensor, "l b t h"], width: str) -> Float[Tensor, "l b heads 2 e"]:
    """Σu and Σx of each sentence, with u = x / ‖x‖: by head, or of whole vectors."""
    if width == "head" and (heads := lengths.shape[-1]) > 1:
        by_head: Tensor = totals[:, :, ::2].unflatten(-1, (heads, -1))
        return by_head.transpose(2, 3)
    return totals[:, :, None, -2:]


def nonzero(batch: Batch, lengths: Float[Tensor, "l b t h"], width: str, mask: str) -> Float[Tensor, "l b heads"]:
    """How many of the vectors that count are not zero."""
    norms = lengths if width == "head" else lengths.amax(-1, keepdim=True)
    return (kept(batch, mask, norms.dtype).mT @ (norms > 0).to(norms.dtype))[:, :, 0]


def number(
    scope: Memo, slots: Sequence[Any], batch: Batch, lengths: Float[Tensor, "l b t h"], width: str, mask: str
) -> Float[Tensor, "l b heads"]:
    """The same, cached, since several quantities of the same sites and layers ask for it."""
    places = tuple((need.chosen["site"], layer) for need, layer in slots)
    found: Tensor = scope.memo(("number", places, width, mask), lambda: nonzero(batch, lengths, width, mask))
    return found


def cones_of(products: Float[Tensor, "l n h 2 2"], count: Float[Tensor, "l n h"]) -> Arrays:
    """The values that CONES names; NaN where a sentence has too few vectors."""
    products, n = products.double(), count.double().round()
    units, mixed, vectors = products[..., 0, 0], products[..., 0, 1], products[..., 1, 1]
    total, index = vectors.sqrt(), units.sqrt()
    found = (
        ((units - n) / (n * (n - 1))).clamp(-1, 1).where(n > 1, torch.nan),
        (mixed / (n * total)).clamp(-1, 1).where(n > 1, torch.nan),
        index.where(n > 0, torch.nan),
        index / n,
        total.where(n > 0, torch.nan),
    )
    return (torch.stack(found, dim=-1),)


@quantity(finish=cones_of)
def cones(
    scope: Memo,
    slots: Sequence[Any],
    batch: Batch,
    lengths: Float[Tensor, "l b t h"],
    totals: Float[Tensor, "l b k d"],
    width: str,
    mask: str,
) -> Arrays:
    """For each sentence the products of Σu and Σx, and the number of vectors; `finish` turns them into CONES."""
    sums = of_width(totals, lengths, width)
    return sums @ sums.mT, number(scope, slots, batch, lengths, width, mask)


def _directions(sums: Float[Tensor, "l n h 2 e"], count: Float[Tensor, "l n h"], all: Float[Tensor, "l n 1"]) -> Directions:
    (units, vectors), nonzero = sums.sum(1).unbind(-2), count.sum(1).round().long()
    return Directions(units, vectors, nonzero, all.sum(1).round().long() - nonzero)


@quantity(finish=_directions)
def directions(
    scope: Memo,
    slots: Sequence[Any],
    batch: Batch,
    lengths: Float[Tensor, "l b t h"],
    totals: Float[Tensor, "l b k d"],
    width: str,
    mask: str,
) -> Arrays:
    """The directions of all vectors of the batch."""
    sums, count = of_width(totals, lengths, width), number(scope, slots, batch, lengths, width, mask)
    all = batch.memo(("count", mask), lambda: mask_of(batch, mask).sum().double()[None, None, None])
    return (
        sums.sum(1, keepdim=True, dtype=torch.float64),
        count.sum(1, keepdim=True, dtype=torch.float64),
        all.expand(len(lengths), 1, 1),
    )


def _variance(spread: Float[Tensor, "l n h"], count: Float[Tensor, "l n h"]) -> Arrays:
    """Σ‖x - mean‖² / (n - 1); NaN for fewer than two vectors."""
    return ((spread / (count - 1)).where(count > 1, torch.nan),)


@quantity(finish=_variance)
def variances(batch: Batch, spreads: Float[Tensor, "l b h"], mask: str) -> Arrays:
    """For each sentence and head Σ‖x - mean‖², and n; `finish` makes it the trace of the covariance."""
    count = mask_of(batch, mask).sum(-1, keepdim=True).double()
    return spreads.double(), count.expand(spreads.shape)


def _one_token(batch: Batch, mask: str, **options: str) -> Int[Tensor, " n"]:
    return sampled_tokens(batch, mask, 1)


@quantity(tokens=_one_token)
def random_vectors(rows: Float[Tensor, "l n h e"], width: str, mask: str) -> Arrays:
    """One vector of each sentence, sampled by hash: any two of them are words of different sentences."""
    return (by_width(rows, width),)


def by_width(rows: Float[Tensor, "l n h e"], width: str) -> Float[Tensor, "l n heads width"]:
    """Vectors by head, or with their heads concatenated."""
    return rows if width == "head" else rows.flatten(-2)[:, :, None]


def of_lengths(norms: Float[Tensor, "l b t h"], keep: Float[Tensor, "b t 1"]) -> Float[Tensor, "l b 3 h"]:
    """The number of lengths of each sentence that count, their mean, and Σ(length - mean)²."""
    count = keep.sum(1, keepdim=True)
    mean = keep.mT @ norms / count
    scatter = ((norms - mean) * keep).square_().sum(2, keepdim=True)
    return torch.cat((count.expand_as(mean), mean, scatter), dim=2)


def moments_of_lengths(lengths: Float[Tensor, "l n 3 h"]) -> Arrays:
    """The mean of each sentence's lengths, their number, and Σ(length - mean)²."""
    count, means, scatters = lengths.double().unbind(2)
    return means, count, scatters


@quantity(finish=moments_of_lengths)
def norms(batch: Batch, lengths: Float[Tensor, "l b t h"], width: str) -> Arrays:
    """‖x‖ of every real token's vector."""
    return (of_lengths(lengths if width == "head" else whole_norms(lengths), kept(batch, "real", lengths.dtype)),)


def _some_tokens(batch: Batch, **options: str) -> Int[Tensor, " n"]:
    return sampled_tokens(batch, "real", DRAWN)


@quantity(tokens=_some_tokens)
def norm_counts(at: Int[Tensor, " n"], lengths: Float[Tensor, "l b t h"], width: str) -> Arrays:
    """log2 ‖x‖ of some tokens of each sentence, sampled by hash, and the edges of the histogram that counts them."""
    norms = (lengths if width == "head" else whole_norms(lengths)).flatten(1, 2)[:, at].log2()
    return norms, torch.ones_like(norms, dtype=torch.bool), *NORM_EDGES
