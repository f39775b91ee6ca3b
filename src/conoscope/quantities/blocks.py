"""Blocks: the best partition of an attention map into blocks along its diagonal."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

MOST_BLOCKS = 10
CUTS = 64
"""A map of more tokens than this may be cut only at this many evenly spaced places."""
NEARLY = 1e-2
"""Among partitions that are worse than the best by no more than this, the one with the fewest blocks is taken."""


def best_blocks(
    excess: Float[Tensor, "n h t t"], lengths: Int[Tensor, " n"]
) -> tuple[Float[Tensor, "n h"], Int[Tensor, "n h"], Int[Tensor, "n h k"]]:
    """The most that 2 to 10 blocks of consecutive tokens hold, the number of these blocks, and their sizes in order, 0 for
    unused blocks.

    By dynamic programming: with best_k(b) the most that k blocks ending before token b hold,
    best_k(b) = max over a < b of best_{k-1}(a) + sum of the block from a to b.
    """
    places = _places(lengths, excess.shape[-1])
    sums = _block_sums(excess, places)
    bests, begins = [sums[..., 0, :]], []
    for _ in range(1, MOST_BLOCKS):
        best, begin = (bests[-1][..., :, None] + sums).max(-2)
        bests.append(best)
        begins.append(begin)
    ends = lengths.clamp_max(places.shape[-1] - 1)[:, None].expand(excess.shape[:2])
    by_count = torch.stack(bests[1:]).gather(-1, ends[None, ..., None].expand(MOST_BLOCKS - 1, -1, -1, 1))[..., 0]
    most = by_count.amax(0)
    count = (by_count >= most - NEARLY * lengths[:, None]).int().argmax(0) + 2
    return most, count, _sizes(begins, ends, count, places)


def _places(lengths: Int[Tensor, " n"], tokens: int) -> Int[Tensor, "n s"]:
    """The positions where each map may be cut, in order: between all tokens, or at CUTS places."""
    cuts = min(tokens, CUTS)
    apart = (lengths.double() / cuts).clamp_min(1)[:, None]
    return (torch.arange(cuts + 1, device=lengths.device) * apart).round().long().minimum(lengths[:, None])


def _block_sums(x: Float[Tensor, "n h t t"], places: Int[Tensor, "n s"]) -> Float[Tensor, "n h s s"]:
    """At (a, b) the sum of the block of rows and columns from place a up to place b, exclusive; -inf for an empty block."""
    # Rows first: the second cumulative sum is then smaller.
    rows = torch.nn.functional.pad(x.cumsum(-2), (0, 0, 1, 0))[_each(places), :, places].transpose(1, 2)
    corner = torch.nn.functional.pad(rows.cumsum(-1), (1, 0))[_each(places), :, :, places].permute(0, 2, 3, 1)
    diagonal = corner.diagonal(dim1=-2, dim2=-1)
    sums = diagonal[..., :, None] + diagonal[..., None, :] - corner - corner.mT
    return sums.masked_fill_((places[:, None] <= places[:, :, None])[:, None], -torch.inf)


def _each(places: Int[Tensor, "n s"]) -> Int[Tensor, "n 1"]:
    return torch.arange(len(places), device=places.device)[:, None]


def _sizes(
    begins: Sequence[Int[Tensor, "n h s"]], ends: Int[Tensor, "n h"], count: Int[Tensor, "n h"], places: Int[Tensor, "n s"]
) -> Int[Tensor, "n h k"]:
    """The sizes of the blocks, by backtracking from the last block to the first; `begins`: where the last of 2, 3, … blocks
    begins, by its end."""
    edges, at = [ends], ends[..., None]
    for blocks in range(MOST_BLOCKS, 1, -1):
        at = begins[blocks - 2].gather(-1, at).where(blocks <= count[..., None], at)
        edges.append(at[..., 0])
    ordered = torch.stack((torch.zeros_like(ends), *edges[::-1]), dim=-1)
    return places.gather(1, ordered.flatten(1)).view(ordered.shape).diff(dim=-1)
