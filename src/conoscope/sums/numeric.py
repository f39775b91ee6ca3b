"""Numeric helpers for tensors that several rooms share. It imports torch: what must do without torch may not import it."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

BLOCK = 2**18
"""How many numbers a CPU takes through several operations at once."""


def at_least_single(x: Tensor) -> Tensor:
    """At least single precision, so that a sum over a batch of half-precision numbers is one."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def entropy_of(p: Float[Tensor, "*s j"]) -> Float[Tensor, "*s"]:
    """-Σ p log p, without gradients."""
    # Four times as fast as torch.special.entr; a weight of 0 still adds 0, since 0 · log tiny is 0. On a CPU in blocks that
    # stay in its caches.
    rows, found, tiny = p.reshape(-1, p.shape[-1]), p.new_empty(p.shape[:-1].numel()), torch.finfo(p.dtype).tiny
    block = min(max(1, BLOCK // p.shape[-1]), len(rows)) if p.device.type == "cpu" else len(rows)
    scratch = p.new_empty(block, p.shape[-1])
    for start in range(0, len(rows), max(1, block)):
        some = rows[start : start + block]
        room = scratch[: len(some)]
        torch.clamp_min(some, tiny, out=room).log_().mul_(some)
        torch.sum(room, -1, out=found[start : start + block])
    return found.neg_().view(p.shape[:-1])


def normalized(entropy: Float[Tensor, "*s"], n: Shaped[Tensor, "*#s"]) -> Float[Tensor, "*s"]:
    """An entropy divided by log n, the most that n shares can have; log 2 stands for log 1."""
    return entropy / n.clamp_min(2).to(entropy.dtype).log()


def entropy_rank(s: Float[Tensor, "*s d"]) -> Float[Tensor, "*s"]:
    """How many of some numbers count: exp(-Σ p log p) with p = s / Σ s; NaN where all are 0."""
    entropy: Tensor = torch.special.entr(s / s.sum(-1, keepdim=True)).sum(-1)
    return entropy.exp()


def mixed(x: Int[Tensor, "*s"]) -> Int[Tensor, "*s"]:
    """63 bits that look random, the same ones for the same number (the finalizer of splitmix64)."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (x ^ ((x >> 31) & ((1 << 33) - 1))) & torch.iinfo(torch.int64).max
