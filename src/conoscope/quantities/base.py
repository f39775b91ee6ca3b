"""Quantity: a named, pure function of a trace, and the masks that say which tokens count."""

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
"""No limit on the number of groups in a sample."""
MASKS = ("published", "real", "content")

Arrays = tuple[Any, ...]
"""The arguments of a statistic's `of`: tensors with the items on the first axis, then what all items share."""
Subject = Trace | PooledOutput | HeadWeights


@dataclass(frozen=True)
class Quantity:
    """A named function of a subject.

    `of`: the type of its subject. `reductions`: the reductions of attention weights that it reads (`maps`: the whole weights of
    some examples). `sampled`: it also receives the sample so far, and skips items that could not enter it. `sparse`: it may
    return None for some layers. `finish`: a function of the arrays of several batches, concatenated; it returns the arguments of
    the statistic, or the statistic itself. `run_options`: the options of a run that it reads, `kinds` or `frequencies`.
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
    """Decorator that registers a function in QUANTITIES under its own name."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        QUANTITIES[compute.__name__] = Quantity(compute, of, reductions, sampled, sparse, finish, run_options)
        return compute

    return register


def resolve_mask(mask: str, site: str) -> str:
    """The mask to use at a site: `published` is `content` for hidden states and `real` elsewhere."""
    return {"hidden": "content"}.get(site, "real") if mask == "published" else mask


def mask_of(batch: Batch, mask: str) -> Bool[Tensor, "b t"]:
    """A mask of the tokens that count: all real ones, or only content."""
    return {"real": batch.real, "content": batch.content}[mask]


def tokens_entering(
    batch: Batch, so_far: Sample, size: int, groups: Int[Tensor, "b t"] | None = None
) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The real tokens of a batch that could enter a sample of `size` per group: their flat indices in the batch, ranks and
    groups."""
    at = sampled_tokens(batch, "real", batch.real.shape[1])
    ranks = batch.token_ranks.flatten()[at]
    of = torch.zeros_like(ranks) if groups is None else groups.flatten()[at]
    kept = so_far.entering(of, ranks, (size, ALL))
    return at[kept], ranks[kept], of[kept]


def examples_entering(
    batch: Batch, so_far: Sample, size: int, fitting: Bool[Tensor, " b"]
) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The examples of a batch where `fitting` holds and that could enter a sample of `size`: their rows and ranks."""
    rows = fitting.nonzero()[:, 0]
    ranks = batch.example_ranks[rows]
    kept = so_far.entering(torch.zeros_like(ranks), ranks, (size, 1))
    return rows[kept], ranks[kept]


def sampled_tokens(batch: Batch, mask: str, size: int) -> Int[Tensor, " n"]:
    """The `size` tokens of each sentence with the smallest hash, among those that count, as flat indices in the batch."""

    def compute() -> Tensor:
        keep = mask_of(batch, mask)
        length = keep.shape[1]
        if size >= length:
            return keep.flatten().nonzero()[:, 0]
        ranks = batch.token_ranks.where(keep, torch.iinfo(torch.int64).max)
        where = ranks.topk(size, largest=False).indices
        starts = torch.arange(len(keep), device=keep.device)[:, None] * length
        return (starts + where)[keep.gather(1, where)]

    at: Tensor = batch.memo(("sampled tokens", mask, size), compute)
    return at
