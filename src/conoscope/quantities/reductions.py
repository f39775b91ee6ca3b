"""Reductions: what is kept of a layer until the end of a pass, computed while the layer's tensors exist."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture import fused, fused_vectors
from conoscope.capture.batch import Batch
from conoscope.capture.draws import drawn_among_keys, drawn_keys, drawn_places, extent_of, mask_of, sampled_tokens
from conoscope.capture.reductions import BAND
from conoscope.capture.trace import PooledOutput, Trace
from conoscope.quantities.base import reduction
from conoscope.quantities.transformed import drawn_grams, drawn_vectors, multiplies, norms_by_gram, transformed_norms, values_of
from conoscope.sums.numeric import at_least_single

CLOSE = 1e-2
"""A difference of sums is recomputed in double precision if it is less than this share of them."""


@reduction()
def lengths(trace: Trace, site: str) -> Float[Tensor, "b t h"] | None:
    """‖x‖ of every vector by head, at least in single precision."""
    return None if getattr(trace, site) is None else trace.norms(site)


@reduction()
def totals(trace: Trace, site: str, mask: str) -> Float[Tensor, "b k d"] | None:
    """Sums over the vectors of each sentence that count: of x / ‖x‖ by head, of x / ‖x‖ of whole vectors, and of x.

    For a site without heads the first two are one. Cached.
    """
    if (kernel := trace.sums(site)) is not None and mask in kernel.totals:
        return kernel.totals[mask]
    if (whole := trace.whole(site)) is None:
        return None
    sums: Tensor = trace.memo(
        ("totals", site, mask), lambda: _totals(at_least_single(whole), trace.norms(site), kept(trace.batch, mask, whole.dtype))
    )
    return sums


def kept(batch: Batch, mask: str, dtype: torch.dtype) -> Float[Tensor, "b t 1"]:
    """The mask as numbers, at least in single precision: 1 for the tokens that count, 0 for the others; cached."""
    single = torch.promote_types(dtype, torch.float32)
    ones: Tensor = batch.memo(("kept", mask, single), lambda: mask_of(batch, mask)[..., None].to(single))
    return ones


def _totals(x: Float[Tensor, "b t d"], by_head: Float[Tensor, "b t h"], keep: Float[Tensor, "b t 1"]) -> Float[Tensor, "b k d"]:
    """One matrix product gives all sums: a column of weights for each head's norms, one for the norms of whole vectors, one of
    ones.

    Each head takes its own part of the row: this computes more than needed, but is faster.
    """
    heads, ones = by_head.shape[-1], torch.ones_like(by_head[..., :1])
    norms = torch.cat((by_head, whole_norms(by_head), ones) if heads > 1 else (by_head, ones), dim=-1)
    # A zero vector adds nothing to a sum, however large its weight.
    sums = (keep / norms.clamp_min_(torch.finfo(norms.dtype).tiny)).mT @ x
    if heads == 1:
        return sums
    units = sums[:, :heads].unflatten(-1, (heads, -1)).diagonal(dim1=1, dim2=2).mT.flatten(1)
    return torch.cat((units[:, None], sums[:, heads:]), dim=1)


def whole_norms(by_head: Float[Tensor, "*s h"]) -> Float[Tensor, "*s 1"]:
    """The norms of whole vectors, from those of their heads."""
    norms: Tensor = by_head if by_head.shape[-1] == 1 else torch.linalg.vector_norm(by_head, dim=-1, keepdim=True)
    return norms


@reduction()
def spreads(trace: Trace, site: str, mask: str) -> Float[Tensor, "b h"] | None:
    """Σ‖x - mean‖² over the vectors of each sentence that count, by head.

    On a CPU Σ‖x‖² - ‖Σx‖² / n, recomputed for sentences in which little is left of it, as with tokens that nearly coincide or
    have one huge coordinate.
    """
    if (kernel := trace.sums(site)) is not None and mask in kernel.spreads:
        spread = kernel.spreads[mask]
        return spread if spread.shape[-1] == kernel.lengths.shape[-1] else spread.sum(-1, keepdim=True)
    whole, sums = trace.whole(site), totals(trace, site, mask)
    if whole is None or sums is None:
        return None
    by_head = trace.norms(site)
    heads, keep = by_head.shape[-1], mask_of(trace.batch, mask)
    if whole.device.type != "cpu":
        return spread_of(whole, keep, heads)
    squares = (kept(trace.batch, mask, whole.dtype).mT.double() @ by_head.double().square())[:, 0]
    vectors: Tensor = sums[:, -1].double().unflatten(-1, (heads, -1))
    spread = squares - vectors.square().sum(-1) / keep.sum(-1, keepdim=True)
    for row in (~(spread >= CLOSE * squares)).any(-1).nonzero()[:, 0].tolist():
        spread[row] = spread_of(whole[row, None].double(), keep[row, None], heads)[0]
    return spread


def spread_of(x: Float[Tensor, "b t d"], keep: Bool[Tensor, "b t"], heads: int) -> Float[Tensor, "b h"]:
    """Σ‖x - mean‖² by head, at least in single precision, from the differences to each first vector: 0 where all are the same."""
    x, weights = at_least_single(x), keep[:, None].to(torch.promote_types(x.dtype, torch.float32))
    first = x[torch.arange(len(x), device=x.device), keep.int().argmax(-1)][:, None]
    apart = (x - first).mul_(weights.mT)
    mean = (weights @ apart) / weights.sum(-1, keepdim=True)
    squares = apart.sub_(mean).mul_(weights.mT).square_().sum(1)
    spread: Tensor = squares.unflatten(-1, (heads, -1)).sum(-1)
    return spread


@reduction()
def rows(trace: Trace, site: str, at: Int[Tensor, " n"]) -> Float[Tensor, "n h e"] | None:
    """The vectors of some tokens, by head; for a site without heads there is one."""
    whole, by_head = trace.whole(site), trace.vectors(site)
    if whole is None or by_head is None:
        return None
    found: Tensor = whole.flatten(0, 1).index_select(0, at).unflatten(-1, (by_head.shape[1], -1))
    return found


@reduction(weights=("entropy",))
def entropy(trace: Trace) -> Float[Tensor, "b h t"] | None:
    """-Σ p log p of each query's weights."""
    return trace.reduction("entropy")


@reduction(weights=("classifying",))
def classifying(trace: Trace) -> Float[Tensor, "b h t"] | None:
    """The weights of the classifying token's query; 0 if there is none."""
    return trace.reduction("classifying")


@reduction(weights=("band",))
def band(trace: Trace) -> Float[Tensor, "b h t 3"] | None:
    """Each query's weights on the previous token, on the token itself and on the next."""
    return trace.reduction("band")


@reduction(weights=("received",))
def received(trace: Trace) -> Float[Tensor, "b h 2 t"] | None:
    """The sum of each key's weights over the real queries, and over the separator queries."""
    return trace.reduction("received")


@reduction()
def visible(trace: Trace) -> Int[Tensor, "b t"] | None:
    """How many keys each query may see; None without weights."""
    return None if trace.visible is None else trace.visible.expand(trace.batch.real.shape)


@reduction(weights=("paired",))
def paired(trace: Trace, at: Int[Tensor, " n"]) -> Float[Tensor, "n h"] | None:
    """The weights of some keys from the query that is sampled for each."""
    return trace.paired(at)


@reduction(weights=("maps",))
def maps(trace: Trace, at: Int[Tensor, " n"]) -> Float[Tensor, "n h s s"] | None:
    """The attention maps of some examples, up to the end of the longest: a batch may hold much longer texts."""
    found = trace.maps(at, extent_of(trace.batch, at))
    return None if found is None else at_least_single(found)


@reduction(weights=("columns",))
def summed(trace: Trace) -> Float[Tensor, "b k"] | None:
    """‖Σ_h α f‖ of the sampled keys (`drawn_keys`), mean over a text's real queries."""
    weights, batch = trace.reduction("columns"), trace.batch
    gram = None if weights is None else drawn_grams(trace)
    if gram is None or weights is None:
        return None
    if fused.runs_on(gram.device, weights.dtype):
        return fused_vectors.summed_norms(weights, gram, kept(batch, "real", weights.dtype))
    by_key = weights.permute(0, 3, 1, 2).flatten(0, 1)
    norms: Tensor = norms_by_gram(by_key, gram.flatten(0, 1)).unflatten(0, gram.shape[:2])
    return norms.where(batch.real[:, None], 0.0).sum(-1) / batch.length


@reduction(weights=("band",))
def itself(trace: Trace, tokens: str) -> Float[Tensor, "n d"] | None:
    """Σ_h α_ii f_h(x_i) of all tokens, or of the drawn ones: what a token gives itself."""
    weights = trace.reduction("band")
    if weights is None or trace.projection is None or trace.value is None:
        return None
    whole = trace.projection.single
    if tokens == "drawn" and multiplies(trace):
        return fused_vectors.weighted_vectors(trace.value, drawn_places(trace.batch), weights[..., BAND.index(0)], whole)
    own = weights[..., BAND.index(0)].transpose(1, 2)
    if tokens == "drawn" and (f := drawn_vectors(trace)) is not None:
        at = drawn_keys(trace.batch)
        by_key = own.gather(1, at[..., None].expand(-1, -1, own.shape[-1]))[:, :, None] @ f
        return by_key.flatten(0, 2)[drawn_among_keys(trace.batch)]
    value, at = values_of(trace), sampled_tokens(trace.batch, "real", trace.batch.real.shape[1])
    if value is None:
        return None
    mine = (value * own[..., None]).flatten(0, 1)[at]
    return mine.flatten(1) @ whole.flatten(0, 1)


@reduction()
def transformed(trace: Trace) -> Float[Tensor, "b h t"] | None:
    """‖f_h(x_j)‖ of every token and head; None if the model's W_O was not found."""
    return transformed_norms(trace)


@reduction(constant=True)
def projection_bias(trace: Trace) -> Float[Tensor, " d"] | None:
    """The bias of W_O; 0 if it has none."""
    if trace.projection is None:
        return None
    weight, bias = trace.projection.weight, trace.projection.bias
    return at_least_single(weight.new_zeros(weight.shape[-1]) if bias is None else bias)


@reduction(constant=True)
def norm(trace: Trace) -> Float[Tensor, "2 d"] | None:
    """The norm after the residual: its gain, and 1 if it takes the mean of a vector off, else 0; None if there is none."""
    if trace.norm is None or trace.projection is None:
        return None
    width = trace.projection.weight.shape[-1]
    gain = trace.projection.weight.new_ones(width) if trace.norm.gain is None else trace.norm.gain
    gain = at_least_single(gain)
    return torch.stack((gain, torch.full_like(gain, float(trace.norm.centred))))


@reduction(of=PooledOutput)
def pooled(answer: PooledOutput, site: str) -> Float[Tensor, "b d"] | None:
    """The vector that represents each text."""
    vectors: Tensor | None = getattr(answer, site)
    return None if vectors is None else at_least_single(vectors)
