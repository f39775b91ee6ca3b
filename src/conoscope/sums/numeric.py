"""Numeric helpers for tensors, shared by several packages. Imports torch, so code that must run without torch cannot use it."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

BLOCK = 2**18
"""Block size, in numbers, of a chain of operations on a CPU."""


def at_least_single(x: Tensor) -> Tensor:
    """The tensor in at least single precision, so that sums over a batch of half-precision numbers are accurate."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def entropy_of(p: Float[Tensor, "*s j"]) -> Float[Tensor, "*s"]:
    """-Σ p log p, without gradients."""
    # Four times as fast as torch.special.entr; a weight of 0 still adds 0, since 0 · log tiny is 0. A CPU takes blocks that fit
    # into its caches.
    rows, entropy, tiny = p.reshape(-1, p.shape[-1]), p.new_empty(p.shape[:-1].numel()), torch.finfo(p.dtype).tiny
    block = min(max(1, BLOCK // p.shape[-1]), len(rows)) if p.device.type == "cpu" else len(rows)
    scratch = p.new_empty(block, p.shape[-1])
    for start in range(0, len(rows), max(1, block)):
        chunk = rows[start : start + block]
        terms = scratch[: len(chunk)]
        torch.clamp_min(chunk, tiny, out=terms).log_().mul_(chunk)
        torch.sum(terms, -1, out=entropy[start : start + block])
    return entropy.neg_().view(p.shape[:-1])


def normalized(entropy: Float[Tensor, "*s"], n: Shaped[Tensor, "*#s"]) -> Float[Tensor, "*s"]:
    """An entropy divided by log n, the maximum for n shares; log 2 replaces log 1."""
    return entropy / n.clamp_min(2).to(entropy.dtype).log()


def entropy_rank(s: Float[Tensor, "*s d"]) -> Float[Tensor, "*s"]:
    """Effective number of nonzero values: exp(-Σ p log p) with p = s / Σ s; NaN if all are 0."""
    entropy: Tensor = torch.special.entr(s / s.sum(-1, keepdim=True)).sum(-1)
    return entropy.exp()


def mixed(x: Int[Tensor, "*s"]) -> Int[Tensor, "*s"]:
    """A hash of each number to 63 bits (the finalizer of splitmix64)."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (x ^ ((x >> 31) & ((1 << 33) - 1))) & torch.iinfo(torch.int64).max
