"""Blocks: the best way to cut a map into blocks along its diagonal."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

MOST_BLOCKS = 10
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
    sums = _block_sums(excess)
    bests = [sums[..., 0, :]]
    for _ in range(1, MOST_BLOCKS):
        bests.append((bests[-1][..., :, None] + sums).amax(-2))
    best = torch.stack(bests)
    ends = lengths[:, None].expand(excess.shape[:2])
    by_count = best.gather(-1, ends[None, ..., None].expand(MOST_BLOCKS, -1, -1, 1))[1:, ..., 0]
    most = by_count.amax(0)
    count = (by_count >= most - NEARLY * lengths[:, None]).int().argmax(0) + 2
    return most, count, _sizes(best, sums, ends, count)


def _block_sums(x: Float[Tensor, "n h t t"]) -> Float[Tensor, "n h t+1 t+1"]:
    """At (a, b) the sum of the block of rows and columns from a to before b; -inf where it would be empty."""
    corner = torch.nn.functional.pad(x, (1, 0, 1, 0)).cumsum(-1).cumsum(-2)
    diagonal = corner.diagonal(dim1=-2, dim2=-1)
    sums = diagonal[..., :, None] + diagonal[..., None, :] - corner - corner.mT
    empty = torch.ones(sums.shape[-2:], dtype=torch.bool, device=x.device).tril()
    return sums.masked_fill_(empty, -torch.inf)


def _sizes(
    best: Float[Tensor, "k n h s"], sums: Float[Tensor, "n h s s"], ends: Int[Tensor, "n h"], count: Int[Tensor, "n h"]
) -> Int[Tensor, "n h k"]:
    """Back from the end: where the last of the blocks begins, and so on."""
    sizes = []
    for blocks in range(MOST_BLOCKS, 0, -1):
        last = sums.gather(-1, ends[..., None, None].expand(*sums.shape[:-1], 1))[..., 0]
        begins = (best[blocks - 2] + last).argmax(-1) if blocks > 1 else torch.zeros_like(ends)
        begins = begins.where(blocks <= count, ends)
        sizes.append(ends - begins)
        ends = begins
    return torch.stack(sizes[::-1], dim=-1)
