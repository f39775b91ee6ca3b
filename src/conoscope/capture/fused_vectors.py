"""Fused reductions of vectors on a GPU: norms and sums of all sites of a layer, by kernels (`vector_kernels.py`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

TILE, SUMMED = 4096, 2048
"""How many numbers of some tokens' vectors a program holds at once: of whole vectors, and of those that it sums."""
WARPS = 4
"""How many warps sum the vectors of one head of one text."""
COLUMNS = 64
"""How many coordinates a program sums of a site without heads, where no site has heads."""
WIDEST = 128
"""The widest head whose Gram matrix fits a program of `transformed_norms`."""
WHOLE = 1024
"""The widest W_O of all heads whose product with itself is kept for each layer: as large as a square weight matrix."""
QUERIES = 64
"""Of how many queries a program takes the weights at once."""
SITES = 8
"""How many sites one launch reads."""


def power_of_two(number: int) -> int:
    """The smallest power of two that is at least this number, as blocks of kernels must be."""
    return 1 << (number - 1).bit_length()


@dataclass(frozen=True)
class VectorSums:
    """What is kept of the vectors of some sites: norms by head and whole; and for each wanted pair of site and mask the sums of
    x / ‖x‖ by head, of whole vectors, and of x, and Σ‖x - mean‖² by head."""

    lengths: Float[Tensor, "s b t h"]
    whole: Float[Tensor, "s b t"]
    totals: Float[Tensor, "pairs b 3 d"]
    spreads: Float[Tensor, "pairs b h"]


def vector_sums(
    sites: Sequence[Float[Tensor, "b t h e"]],
    keep: Float[Tensor, "m b t"],
    first: Int[Tensor, "m b"],
    real: Float[Tensor, "b t"],
    bad: Int[Tensor, " b"],
    wanted: int | None = None,
) -> VectorSums:
    """The sums of up to SITES sites of one shape and precision. `first`: the first token that each mask keeps. `wanted`: a bit
    for each pair of site and mask, masks first; all if None. `bad` is set to 1 for texts that have a vector whose norm is not
    finite."""
    from conoscope.capture import vector_kernels as kernels

    (rows, tokens, heads, width), count, masks = sites[0].shape, len(sites), len(keep)
    single: dict[str, Any] = {"dtype": torch.float32, "device": keep.device}
    lengths = torch.empty(count, rows, tokens, heads, **single)
    whole = torch.empty(count, rows, tokens, **single)
    wanted = (1 << count * masks) - 1 if wanted is None else wanted
    totals = torch.empty(wanted.bit_count(), rows, 3, heads * width, **single)
    spreads = torch.empty(wanted.bit_count(), rows, heads, **single)
    padded = [*sites, *[sites[0]] * (SITES - count)]
    strides = [stride for x in padded for stride in x.stride()]
    block = power_of_two(heads), power_of_two(width)
    together = max(1, TILE // (block[0] * block[1]))
    kernels.vector_lengths[(-(-tokens // together), rows, count)](
        *padded, real, lengths, whole, bad, *strides, rows, tokens, heads, width,
        BH=block[0], BE=block[1], BT=together, num_warps=4,
    )  # fmt: skip
    kernels.vector_sums[(heads, rows, count)](
        *padded, keep, first, lengths, whole, totals, spreads, *strides, rows, tokens, heads, width, wanted,
        MASKS=masks, BE=block[1], BT=max(1, SUMMED // block[1]), num_warps=WARPS,
    )  # fmt: skip
    return VectorSums(lengths, whole, totals, spreads)


def summed_norms(
    weights: Float[Tensor, "b h t k"], gram: Float[Tensor, "b k h h"], real: Float[Tensor, "b t"]
) -> Float[Tensor, "b k"]:
    """‖Σ_h α_h f_h‖ of some keys, mean over real queries."""
    from conoscope.capture import vector_kernels as kernels

    rows, heads, tokens, keys = weights.shape
    norms = torch.empty(rows, keys, dtype=torch.float32, device=weights.device)
    kernels.summed_norms[(keys, rows)](
        weights, gram.contiguous(), real, norms, *weights.stride(), tokens, heads, keys,
        BH=max(16, power_of_two(heads)), BI=QUERIES, num_warps=4,
    )  # fmt: skip
    return norms


def transformed_norms(value: Float[Tensor, "b g t e"], gram: Float[Tensor, "h e e"]) -> Float[Tensor, "b h t"]:
    """‖v W_O‖ of every token and head, from W_O W_Oᵀ of each head."""
    from conoscope.capture import vector_kernels as kernels

    (rows, groups, tokens, width), heads, block = value.shape, len(gram), 128 if value.shape[-1] <= 64 else 64
    norms = torch.empty(rows, heads, tokens, dtype=torch.float32, device=value.device)
    kernels.transformed_norms[(-(-tokens // block) * rows * heads,)](
        value, gram.contiguous(), norms, *value.stride(), tokens, heads, heads // groups,
        E=width, BE=max(16, power_of_two(width)), BM=block, PRECISION="tf32x3", num_warps=4,
    )  # fmt: skip
    return norms


def head_grams(
    value: Float[Tensor, "b g t e"], at: Int[Tensor, "b k"], products: Float[Tensor, "he he"]
) -> Float[Tensor, "b k h h"]:
    """f_h · f_g of some tokens and each two heads, f = v W_O, from the product of W_O of all heads with itself."""
    from conoscope.capture import vector_kernels as kernels

    (rows, keys), groups, width = at.shape, value.shape[1], value.shape[-1]
    heads, (block, warps) = len(products) // width, (128, 8) if width <= 64 else (64, 4)
    gram = torch.empty(rows, keys, heads, heads, dtype=torch.float32, device=value.device)
    kernels.head_grams[(-(-rows * keys // block), heads * heads)](
        value, at.contiguous(), products.contiguous(), gram, *value.stride(), rows * keys, keys, heads, heads // groups,
        E=width, BE=max(16, power_of_two(width)), BN=block, PRECISION="tf32x3", num_warps=warps,
    )  # fmt: skip
    return gram


def weighted_vectors(
    value: Float[Tensor, "b g t e"], at: Int[Tensor, " n"], weights: Float[Tensor, "b h t"], projection: Float[Tensor, "h e d"]
) -> Float[Tensor, "n d"]:
    """Σ_h α_h v_h W_O of some tokens, given as flat indices in the batch, from their weights by head."""
    from conoscope.capture import vector_kernels as kernels

    (groups, tokens, width), (heads, _, outside) = value.shape[1:], projection.shape
    sums = torch.empty(len(at), outside, dtype=torch.float32, device=value.device)
    if not len(at):
        return sums
    kernels.weighted_vectors[(-(-len(at) // 32), -(-outside // 64))](
        value, at.contiguous(), weights, projection.contiguous(), sums,
        *value.stride(), *weights.stride(), len(at), tokens, heads, heads // groups, outside,
        E=width, BE=max(16, power_of_two(width)), BN=32, BD=64, PRECISION="tf32x3", num_warps=4,
    )  # fmt: skip
    return sums
