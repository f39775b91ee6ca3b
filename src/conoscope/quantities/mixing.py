"""Mixing: how much of a token's new vector comes from other tokens (Kobayashi et al. 2021).

S_ij = Σ_h α_ij f_h(x_j). Only S_ii needs the heads' f: the sum of the others is the attention's output minus its bias minus S_ii.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.draws import drawn_places, sampled_tokens
from conoscope.capture.reductions import BAND
from conoscope.capture.trace import HeadWeights
from conoscope.quantities.base import Arrays, quantity
from conoscope.quantities.kinds import one_hot
from conoscope.sums.numeric import at_least_single
from conoscope.sums.samples import Constant

MIXING = ("attn_w", "attn_n", "attnres_w", "attnres_n", "attnresln_n")
"""The five ratios, in this order: of weights, of norms; alone, with the residual, and after the normalisation."""
Rows = Float[Tensor, "l n _h _e"] | None


def _tokens(batch: Batch, tokens: str) -> Int[Tensor, " n"]:
    """All tokens, or the special ones and others sampled by hash."""
    return sampled_tokens(batch, "real", batch.real.shape[1]) if tokens == "all" else drawn_places(batch)


@quantity(tokens=_tokens, run_options=("kinds",))
def mixing(
    batch: Batch,
    at: Int[Tensor, " n"],
    band: Float[Tensor, "l b h t 3"],
    tokens: str,
    itself: Float[Tensor, "l n d"] | None = None,
    output_rows: Rows = None,
    residual_rows: Rows = None,
    projection_bias: Float[Tensor, "l d"] | None = None,
    norm: Float[Tensor, "l 2 d"] | None = None,
) -> Arrays:
    """The ratios that MIXING names, of some tokens, and a mask of their kinds; NaN for a ratio that the layer does not have."""
    own = band[..., BAND.index(0)].transpose(2, 3).flatten(1, 2)[:, at]
    apart = 1 - own.mean(-1)
    none = torch.full_like(apart, torch.nan)
    ratios = {"attn_w": apart, "attnres_w": apart / 2}
    if itself is not None and output_rows is not None and projection_bias is not None:
        others = at_least_single(output_rows.flatten(2)) - projection_bias[:, None] - itself
        ratios["attn_n"] = _ratio(others, itself)
        if residual_rows is not None:
            preserved = itself + at_least_single(residual_rows.flatten(2))
            ratios["attnres_n"] = _ratio(others, preserved)
            if norm is not None:
                ratios["attnresln_n"] = _ratio(_linear(others, norm), _linear(preserved, norm))
    values = torch.stack([ratios.get(name, none) for name in MIXING], dim=-1)
    keep = batch.memo(("kinds of tokens", tokens), lambda: one_hot(batch, torch.bool).flatten(0, 1)[at, :, None])
    shape = (*values.shape[:2], keep.shape[1], len(MIXING))
    return values[:, :, None].expand(shape), keep.expand(shape)


def _linear(x: Float[Tensor, "l n d"], norm: Float[Tensor, "l 2 d"]) -> Float[Tensor, "l n d"]:
    """Up to a factor, what a part of a vector adds to the normalised vector."""
    gain, centred = norm[:, :1], norm[:, 1:, :1]
    return (x - x.mean(-1, keepdim=True) * centred) * gain


def _ratio(mixed: Float[Tensor, "l n d"], preserved: Float[Tensor, "l n d"]) -> Float[Tensor, "l n"]:
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
