"""Directions: how much the vectors of a sentence, or of the corpus, point one way, and how long they are.

Each layer of each batch costs little: the norms of a site's vectors and one matrix product. The rest is done once for many
batches, when the buffered arrays are summed.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.trace import Trace
from conoscope.quantities.base import Arrays, mask_of, quantity, sampled_tokens
from conoscope.sums.numeric import at_least_single
from conoscope.sums.statistics import Directions, Moments

CONES = ("sim", "intra_sim", "cone_index", "cone_share", "sum_norm")
"""What `cones` computes for each sentence, in this order."""
NORM_EDGES = (-10.0, 1 / 16, 24 * 16 + 1)
"""Of log2 ‖x‖: from 0.001 to 16,384, sixteen to an octave, so that a length grows by 4 % from one edge to the next."""
DRAWN = 16
"""How many tokens of a sentence the histogram counts."""
CLOSE = 1e-2
"""A difference of sums is recomputed in double precision if it is less than this share of them."""


@dataclass(frozen=True)
class Sentences:
    """Sums over the vectors of each sentence: Σu and Σx, with u = x / ‖x‖, and the number of vectors that are not zero."""

    sums: Float[Tensor, "b h 2 e"]
    count: Float[Tensor, "b h"]

    @cached_property
    def products(self) -> Float[Tensor, "b h 2 2"]:
        """‖Σu‖², Σu · Σx and ‖Σx‖²."""
        return self.sums @ self.sums.mT


def norms_of(trace: Trace, site: str, width: str) -> Float[Tensor, "b t h"]:
    """‖x‖ of every vector, by head or of all heads concatenated, at least in single precision; cached."""
    by_head = trace.norms(site)
    if width == "head" or by_head.shape[-1] == 1:
        return by_head
    found: Tensor = trace.memo(("norms", site, width), lambda: torch.linalg.vector_norm(by_head, dim=-1, keepdim=True))
    return found


def by_sentence(trace: Trace, site: str, width: str, mask: str) -> Sentences | None:
    """The sums over each sentence of the batch; cached."""
    if getattr(trace, site) is None:
        return None
    if site == "input" and trace.goes_on and ("sentences", "hidden", mask) in trace.earlier:
        return trace.earlier["sentences", "hidden", mask][width]  # type: ignore[no-any-return]
    both: dict[str, Sentences] = trace.memo(("sentences", site, mask), lambda: _sum_sentences(trace, site, mask))
    return both[width]


def _sum_sentences(trace: Trace, site: str, mask: str) -> dict[str, Sentences]:
    """The sums by head and of whole vectors from one matrix product.

    One column of weights for each head's norms, one for the norms of whole vectors, one of ones. Each head takes its own part of
    the row: this computes more than needed, but is faster.
    """
    vectors_of_site = trace.whole(site)
    assert vectors_of_site is not None
    x, by_head, whole = at_least_single(vectors_of_site), norms_of(trace, site, "head"), norms_of(trace, site, "whole")
    heads = by_head.shape[-1]
    norms = torch.cat((by_head, whole, torch.ones_like(whole)), dim=-1)
    # A zero vector adds nothing to a sum, however large its weight.
    weights = kept(trace, mask, x.dtype) / norms.clamp_min(torch.finfo(norms.dtype).tiny)
    sums = weights.mT @ x
    units = sums[:, :heads].unflatten(-1, (heads, -1)).diagonal(dim1=1, dim2=2).mT
    vectors = sums[:, -1].unflatten(-1, (heads, -1))
    count = (weights * norms).sum(1)
    return {
        "head": Sentences(torch.stack((units, vectors), dim=-2), count[:, :heads]),
        "whole": Sentences(sums[:, None, -2:], count[:, heads:-1]),
    }


def kept(trace: Trace, mask: str, dtype: torch.dtype) -> Float[Tensor, "b t 1"]:
    """The mask as numbers: 1 for the tokens that count, 0 for the others."""
    ones: Tensor = trace.batch.memo(("kept", mask, dtype), lambda: mask_of(trace.batch, mask)[..., None].to(dtype))
    return ones


def lengths(trace: Trace, site: str, width: str, mask: str) -> Float[Tensor, "b 3 h"]:
    """Over the vectors of each sentence that count: their number, the mean of ‖x‖, and Σ(‖x‖ - mean)²."""

    def compute() -> Tensor:
        norms = norms_of(trace, site, width)
        return of_lengths(norms, kept(trace, mask, norms.dtype))

    found: Tensor = trace.memo(("lengths", site, width, mask), compute)
    return found


def of_lengths(norms: Float[Tensor, "b t h"], keep: Float[Tensor, "b t 1"]) -> Float[Tensor, "b 3 h"]:
    """The number of lengths of each sentence that count, their mean, and Σ(length - mean)²."""
    count = keep.sum(1, keepdim=True)
    mean = keep.mT @ norms / count
    scatter = ((norms - mean) * keep).square_().sum(1, keepdim=True)
    return torch.cat((count.expand_as(mean), mean, scatter), dim=1)


def _cones(products: Float[Tensor, "n h 2 2"], count: Float[Tensor, "n h"]) -> Arrays:
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


@quantity(finish=_cones)
def cones(trace: Trace, site: str, width: str, mask: str) -> Arrays | None:
    """For each sentence and head the products of Σu and Σx, and the number of vectors; `finish` turns them into CONES."""
    each = by_sentence(trace, site, width, mask)
    return None if each is None else (each.products, each.count)


def _directions(sums: Float[Tensor, "n h 2 e"], count: Float[Tensor, "n h"], all: Float[Tensor, "n 1"]) -> Directions:
    (units, vectors), nonzero = sums.sum(0).unbind(1), count.sum(0).round().long()
    return Directions(units, vectors, nonzero, all.sum(0).round().long() - nonzero)


@quantity(finish=_directions)
def directions(trace: Trace, site: str, width: str, mask: str) -> Arrays | None:
    """The directions of all vectors of the batch."""
    each = by_sentence(trace, site, width, mask)
    if each is None:
        return None
    all = trace.batch.memo(("count", mask), lambda: mask_of(trace.batch, mask).sum().double()[None, None])
    return each.sums.sum(0, keepdim=True).double(), each.count.sum(0, keepdim=True).double(), all


def _variance(spread: Float[Tensor, "n h"], count: Float[Tensor, "n h"]) -> Arrays:
    """Σ‖x - mean‖² / (n - 1); NaN for fewer than two vectors."""
    return ((spread / (count - 1)).where(count > 1, torch.nan),)


@quantity(finish=_variance)
def variances(trace: Trace, site: str, width: str, mask: str) -> Arrays | None:
    """For each sentence and head Σ‖x - mean‖² = Σ‖x‖² - ‖Σx‖² / n, and n; `finish` makes it the trace of the covariance.

    The difference is recomputed if little is left of it, as with tokens that nearly coincide or have one huge coordinate.
    """
    each = by_sentence(trace, site, width, mask)
    if each is None:
        return None
    count, mean, scatter = lengths(trace, site, width, mask).double().unbind(1)
    squares = scatter + count * mean.square()
    spread = squares - each.products[..., 1, 1].double() / count
    close = (spread < CLOSE * squares).any(-1).nonzero()[:, 0]
    for row in close.tolist():
        spread[row] = _spread(trace, site, each.count.shape[1], mask, row)
    return spread, count


def _spread(trace: Trace, site: str, heads: int, mask: str, row: int) -> Float[Tensor, " h"]:
    """Σ‖x - mean‖² of one sentence in double, from the differences to its first vector: 0 where all are the same."""
    whole = trace.whole(site)
    assert whole is not None
    x = whole[row][mask_of(trace.batch, mask)[row]].double().unflatten(-1, (heads, -1))
    apart = x - x[:1]
    spread: Tensor = (apart - apart.mean(0)).square().sum((0, 2))
    return spread


@quantity()
def random_vectors(trace: Trace, site: str, width: str, mask: str) -> Arrays | None:
    """One vector of each sentence, sampled by hash: any two of them are words of different sentences."""
    return drawn_vectors(trace, site, width, sampled_tokens(trace.batch, mask, 1))


def drawn_vectors(trace: Trace, site: str, width: str, at: Int[Tensor, " n"]) -> tuple[Float[Tensor, "n h e"]] | None:
    """The vectors of the tokens at these flat indices of the batch."""
    whole, by_head = trace.whole(site), trace.vectors(site)
    if whole is None or by_head is None:
        return None
    heads = by_head.shape[1] if width == "head" else 1
    return (whole.flatten(0, 1).index_select(0, at).unflatten(-1, (heads, -1)),)


def moments_of_lengths(lengths: Float[Tensor, "n 3 h"]) -> Moments:
    """The moments of all lengths, from those of each sentence."""
    count, means, scatters = lengths.double().nan_to_num().unbind(1)
    total = count.sum(0)
    mean = (count * means).sum(0) / total.clamp_min(1)
    scatter = (scatters + count * (means - mean).square()).sum(0)
    return Moments(total.long(), mean, scatter, torch.zeros_like(total, dtype=torch.int64))


@quantity(finish=moments_of_lengths)
def norms(trace: Trace, site: str, width: str) -> Arrays | None:
    """‖x‖ of every real token's vector."""
    return None if getattr(trace, site) is None else (lengths(trace, site, width, "real"),)


@quantity()
def norm_counts(trace: Trace, site: str, width: str) -> Arrays | None:
    """log2 ‖x‖ of some tokens of each sentence, sampled by hash, and the edges of the histogram that counts them."""
    if getattr(trace, site) is None:
        return None
    norms = norms_of(trace, site, width)
    at = sampled_tokens(trace.batch, "real", DRAWN)
    return norms.flatten(0, 1).index_select(0, at).log2(), at >= 0, *NORM_EDGES
