"""Blocks: the best way to cut a map into blocks along its diagonal."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

MOST_BLOCKS = 10
CUTS = 64
"""A map of more tokens than this is cut at so many places alone, evenly spread."""
NEARLY = 1e-2
"""Of cuts that are no worse than this, the one with the fewest blocks counts."""


def best_blocks(
    excess: Float[Tensor, "n h t t"], lengths: Int[Tensor, " n"]
) -> tuple[Float[Tensor, "n h"], Int[Tensor, "n h"], Int[Tensor, "n h k"]]:
    """What 2 to 10 blocks of consecutive tokens hold at most, how many blocks do that, and their sizes from the first to the
    last, 0 for blocks that are not there.

    By dynamic programming: with best_k(b) the most that k blocks hold which end before token b,
    best_k(b) = max over a < b of best_{k-1}(a) + sum of the block from a to b.
    """
    places = _places(lengths, excess.shape[-1])
    sums = _block_sums(excess, places)
    bests = [sums[..., 0, :]]
    for _ in range(1, MOST_BLOCKS):
        bests.append((bests[-1][..., :, None] + sums).amax(-2))
    best = torch.stack(bests)
    ends = lengths.clamp_max(places.shape[-1] - 1)[:, None].expand(excess.shape[:2])
    by_count = best.gather(-1, ends[None, ..., None].expand(MOST_BLOCKS, -1, -1, 1))[1:, ..., 0]
    most = by_count.amax(0)
    count = (by_count >= most - NEARLY * lengths[:, None]).int().argmax(0) + 2
    return most, count, _sizes(best, sums, ends, count, places)


def _places(lengths: Int[Tensor, " n"], tokens: int) -> Int[Tensor, "n s"]:
    """Where each map may be cut, from its beginning to its end: between all tokens, or at CUTS places."""
    cuts = min(tokens, CUTS)
    apart = (lengths.double() / cuts).clamp_min(1)[:, None]
    return (torch.arange(cuts + 1, device=lengths.device) * apart).round().long().minimum(lengths[:, None])


def _block_sums(x: Float[Tensor, "n h t t"], places: Int[Tensor, "n s"]) -> Float[Tensor, "n h s s"]:
    """At (a, b) the sum of the block of rows and columns from place a to before place b; -inf where it would be empty."""
    # Rows first, so that fewer are summed.
    rows = torch.nn.functional.pad(x.cumsum(-2), (0, 0, 1, 0))[_each(places), :, places].transpose(1, 2)
    corner = torch.nn.functional.pad(rows.cumsum(-1), (1, 0))[_each(places), :, :, places].permute(0, 2, 3, 1)
    diagonal = corner.diagonal(dim1=-2, dim2=-1)
    sums = diagonal[..., :, None] + diagonal[..., None, :] - corner - corner.mT
    return sums.masked_fill_((places[:, None] <= places[:, :, None])[:, None], -torch.inf)


def _each(places: Int[Tensor, "n s"]) -> Int[Tensor, "n 1"]:
    return torch.arange(len(places), device=places.device)[:, None]


def _sizes(
    best: Float[Tensor, "k n h s"],
    sums: Float[Tensor, "n h s s"],
    ends: Int[Tensor, "n h"],
    count: Int[Tensor, "n h"],
    places: Int[Tensor, "n s"],
) -> Int[Tensor, "n h k"]:
    """Back from the end: where the last of the blocks begins, and so on."""
    sizes = []
    for blocks in range(MOST_BLOCKS, 0, -1):
        last = sums.gather(-1, ends[..., None, None].expand(*sums.shape[:-1], 1))[..., 0]
        begins = (best[blocks - 2] + last).argmax(-1) if blocks > 1 else torch.zeros_like(ends)
        begins = begins.where(blocks <= count, ends)
        sizes.append(places.gather(1, ends) - places.gather(1, begins))
        ends = begins
    return torch.stack(sizes[::-1], dim=-1)
