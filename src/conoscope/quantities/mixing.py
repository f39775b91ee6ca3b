"""Mixing: how much of a token's new vector comes from other tokens (Kobayashi et al. 2021).

S_ij = Σ_h α_ij f_h(x_j). Only S_ii needs the heads' f: the sum of the others is the attention's output minus its bias minus S_ii.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.reductions import BAND, drawn_keys, drawn_weights
from conoscope.capture.trace import HeadWeights, Trace
from conoscope.quantities.base import Arrays, quantity, sampled_tokens
from conoscope.quantities.kinds import one_hot
from conoscope.quantities.transformed import values_of
from conoscope.sums.numeric import at_least_single
from conoscope.sums.samples import Constant

MIXING = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
"""The five ratios, in this order: of weights, of norms; alone, with the residual, and after the normalisation."""


@quantity(reductions=("band",), run_options=("kinds",))
def mixing(trace: Trace, tokens: str) -> Arrays | None:
    """The ratios that MIXING names, of some tokens, and a mask of their kinds; NaN for a ratio that the layer does not have."""
    band = trace.reduction("band")
    if band is None:
        return None
    at = _chosen(trace.batch, tokens)
    own = band[..., BAND.index(0)].transpose(1, 2).flatten(0, 1)[at]
    apart = 1 - own.mean(-1)
    ratios = {"attn_w": apart, "attnres_w": apart / 2, **_of_norms(trace, at, own)}
    none = torch.full_like(apart, torch.nan)
    values = torch.stack([ratios.get(name, none) for name in MIXING], dim=-1)
    keep = trace.batch.memo(("kinds of tokens", tokens), lambda: one_hot(trace.batch, torch.bool).flatten(0, 1)[at, :, None])
    return values[:, None].expand(-1, keep.shape[1], -1), keep.expand(-1, -1, len(MIXING))


def _chosen(batch: Batch, tokens: str) -> Int[Tensor, " n"]:
    """The flat indices in the batch of all tokens, or of the special tokens and others sampled by hash."""

    def compute() -> Tensor:
        at = drawn_keys(batch)
        starts = torch.arange(len(at), device=at.device)[:, None] * batch.real.shape[1]
        return (starts + at)[drawn_weights(batch) > 0]

    at: Tensor = sampled_tokens(batch, "real", batch.real.shape[1]) if tokens == "all" else batch.memo("drawn places", compute)
    return at


def _of_norms(trace: Trace, at: Int[Tensor, " n"], own: Float[Tensor, "n h"]) -> dict[str, Float[Tensor, " n"]]:
    """The ratios of norms that the layer has."""
    if trace.output is None or trace.projection is None:
        return {}
    others, itself = parts(trace, at, own)
    ratios = {"attn_n": _ratio(others, itself)}
    residual = trace.residual
    if residual is not None:
        preserved = itself + at_least_single(residual).flatten(0, 1)[at]
        ratios["attnres_n"] = _ratio(others, preserved)
        if trace.norm is not None:
            ratios["attnresln_n"] = _ratio(trace.norm.linear(others), trace.norm.linear(preserved))
    return ratios


def parts(trace: Trace, at: Int[Tensor, " n"], own: Float[Tensor, "n h"]) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Σ_{j≠i} S_ij and S_ii of some tokens; `own`: their weights on themselves, by head."""
    value, projection = values_of(trace), trace.projection
    assert value is not None
    assert projection is not None
    assert trace.output is not None
    mine = value.flatten(0, 1)[at] * own[..., None]
    itself = mine.flatten(1) @ projection.weight.flatten(0, 1).to(mine.dtype)
    output = at_least_single(trace.output).flatten(0, 1)[at]
    return (output if projection.bias is None else output - projection.bias) - itself, itself


def _ratio(mixed: Float[Tensor, "n d"], preserved: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    one: Tensor = torch.linalg.vector_norm(mixed, dim=-1)
    other: Tensor = torch.linalg.vector_norm(preserved, dim=-1)
    return one / (one + other)


@quantity(of=HeadWeights, sparse=True)
def expansion(maps: HeadWeights) -> Constant | None:
    """‖(W_V b_V)(W_O b_O)‖ / √(d + 1), of the affine maps on vectors with a 1 appended; then as the authors' code builds it, with
    b_O as the last column of the second matrix instead of its last row."""
    if maps.value is None or maps.output is None or maps.value_bias is None:
        return None
    shared = len(maps.output) // len(maps.value)
    value, bias = (x.repeat_interleave(shared, dim=0) for x in (maps.value, maps.value_bias))
    value, bias = value.transpose(0, 1).flatten(1), bias.flatten()
    after = maps.output.flatten(0, 1)
    last = after.new_zeros(after.shape[1]) if maps.output_bias is None else maps.output_bias
    whole = (value @ after).square().sum()
    right = whole + (bias @ after + last).square().sum() + 1
    published = right.new_tensor(torch.nan)
    if after.shape[0] == after.shape[1]:
        published = whole + (value @ last).square().sum() + (bias @ after).square().sum() + (bias @ last + 1).square()
    return Constant.of((torch.stack((right, published)) / (len(value) + 1)).sqrt())
