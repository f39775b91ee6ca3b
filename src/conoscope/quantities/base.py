"""Quantity: a named, pure function of what a batch left, and which tokens count."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.trace import HeadWeights, PooledOutput, Trace
from conoscope.sums.samples import Sample

ALL = 2**62
"""As many groups of a sample as there are."""
MASKS = ("published", "real", "content")

Arrays = tuple[Any, ...]
"""What a statistic's `of` takes: tensors with the items first, then what is the same for all of them."""
Subject = Trace | PooledOutput | HeadWeights


@dataclass(frozen=True)
class Quantity:
    """A named function of a subject: what it is of, and which of LOOKS it takes at attention weights (`maps`: at those of
    some examples whole).

    One that is `sampled` is also given the sample so far, so that it need not compute what could not enter; one that is
    `sparse` may have nothing to say of some layers. What `finish` makes of the arrays of several batches together, a
    statistic takes (or it is that statistic already). `run_options`: the options of a run that it reads, `kinds` or
    `frequencies`.
    """

    compute: Callable[..., Any]
    of: type[Subject]
    reductions: tuple[str, ...]
    sampled: bool
    sparse: bool
    finish: Callable[..., Any] | None
    run_options: tuple[str, ...] = ()


QUANTITIES: dict[str, Quantity] = {}


def quantity(
    of: type[Subject] = Trace,
    reductions: tuple[str, ...] = (),
    sampled: bool = False,
    sparse: bool = False,
    finish: Callable[..., Any] | None = None,
    run_options: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into QUANTITIES under its own name."""

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        QUANTITIES[compute.__name__] = Quantity(compute, of, reductions, sampled, sparse, finish, run_options)
        return compute

    return enter


def resolve_mask(mask: str, site: str) -> str:
    """The tokens that a mask means at a site. As published: content tokens of hidden states, all real ones elsewhere."""
    return {"hidden": "content"}.get(site, "real") if mask == "published" else mask


def mask_of(batch: Batch, mask: str) -> Bool[Tensor, "b t"]:
    """Which tokens count: all real ones, or those of content."""
    return {"real": batch.real, "content": batch.content}[mask]


def tokens_entering(
    batch: Batch, so_far: Sample, size: int, groups: Int[Tensor, "b t"] | None = None
) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The real tokens of a batch that could enter a sample of so many of each group: their places in the batch laid out in one
    row, their ranks and groups."""
    at = sampled_tokens(batch, "real", batch.real.shape[1])
    ranks = batch.token_ranks.flatten()[at]
    of = torch.zeros_like(ranks) if groups is None else groups.flatten()[at]
    kept = so_far.entering(of, ranks, (size, ALL))
    return at[kept], ranks[kept], of[kept]


def examples_entering(
    batch: Batch, so_far: Sample, size: int, fitting: Bool[Tensor, " b"]
) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The examples of a batch that fit and could enter a sample of so many: their rows and ranks."""
    rows = fitting.nonzero()[:, 0]
    ranks = batch.example_ranks[rows]
    kept = so_far.entering(torch.zeros_like(ranks), ranks, (size, 1))
    return rows[kept], ranks[kept]


def sampled_tokens(batch: Batch, mask: str, size: int) -> Int[Tensor, " n"]:
    """The `size` tokens of each sentence with the smallest hash, of those that count: their places in the batch laid out in
    one row."""

    def compute() -> Tensor:
        keep = mask_of(batch, mask)
        length = keep.shape[1]
        if size >= length:
            return keep.flatten().nonzero()[:, 0]
        ranks = batch.token_ranks.where(keep, torch.iinfo(torch.int64).max)
        where = ranks.topk(size, largest=False).indices
        starts = torch.arange(len(keep), device=keep.device)[:, None] * length
        return (starts + where)[keep.gather(1, where)]

    found: Tensor = batch.memo(("drawn", mask, size), compute)
    return found
