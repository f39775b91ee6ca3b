"""Quantities: from a trace to the arrays that a statistic sums.

Each quantity is a pure function of a trace and of the options in its signature. It answers what a statistic's `of`
takes, items first, or that statistic already summed; None where the trace has no such site.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.batches import Batch
from conoscope.statistics import Directions, at_least_single
from conoscope.traces import Trace

MASKS = ("published", "real", "content")
ROWS = ("all", "cls", "cls_to_others")

Arrays = tuple[Tensor, ...]


@dataclass(frozen=True)
class Quantity:
    """A named function of a trace, and whether it needs attention weights."""

    compute: Callable[..., Any]
    weights: bool = False


QUANTITIES: dict[str, Quantity] = {}


def quantity(weights: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into QUANTITIES under its own name."""

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        QUANTITIES[compute.__name__] = Quantity(compute, weights)
        return compute

    return enter


def mask_of(batch: Batch, mask: str, site: str) -> Bool[Tensor, "b t"]:
    """Which tokens count. As published: keys, values and queries of all real tokens; hidden states of content only."""
    content = mask == "content" or (mask == "published" and site == "hidden")
    return batch.content if content else batch.real


def _by_sentence(trace: Trace, **options: str) -> Directions | None:
    """The directions of each sentence of the batch, computed once for all quantities that read them."""
    found: Directions | None = trace.once(("directions", *options.values()), lambda: _sum_sentences(trace, **options))
    return found


def _sum_sentences(trace: Trace, site: str, width: str, mask: str) -> Directions | None:
    """Sums over the tokens of each sentence, shape (b, h, e)."""
    x = trace.vectors(site)
    if x is None:
        return None
    x = x.transpose(1, 2).flatten(2)[:, None] if width == "whole" else x
    keep = mask_of(trace.batch, mask, site)[:, None].expand(x.shape[:3])
    return Directions.of(x.movedim(2, 0), keep.movedim(2, 0))


@quantity()
def sim(trace: Trace, site: str, width: str, mask: str) -> Arrays | None:
    """SIM of each sentence: the mean cosine of its pairs of vectors; not defined for fewer than two."""
    each = _by_sentence(trace, site=site, width=width, mask=mask)
    return None if each is None else (each.sim,)


@quantity()
def directions(trace: Trace, site: str, width: str, mask: str) -> Directions | None:
    """The directions of all vectors of the batch."""
    each = _by_sentence(trace, site=site, width=width, mask=mask)
    return None if each is None else each.total()


def normalized_entropy(p: Float[Tensor, "*s j"], keys: Int[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """-Σ p log p / log n, with n the keys that the row may see; log 2 stands for log 1."""
    # Four times as fast as torch.special.entr; a weight of 0 still adds 0, since 0 · log tiny is 0.
    entropy = -p.clamp_min(torch.finfo(p.dtype).tiny).log_().mul_(p).sum(-1)
    return entropy / keys.clamp_min(2).to(p.dtype).log()


@quantity(weights=True)
def attention_entropy(trace: Trace, row: str) -> Arrays | None:
    """Entropy of each sentence's rows: of all of them, of [CLS]'s, or of [CLS]'s with itself taken out."""
    if trace.weights is None or trace.visible is None:
        return None
    weights = at_least_single(trace.weights)
    keys = trace.visible.expand_as(trace.batch.real)
    return (
        _mean_entropy(weights, keys, trace.batch)
        if row == "all"
        else _cls_entropy(weights, keys, trace.batch, with_itself=row == "cls"),
    )


def _mean_entropy(weights: Float[Tensor, "b h t t"], keys: Int[Tensor, "b t"], batch: Batch) -> Float[Tensor, "b h"]:
    entropies = normalized_entropy(weights, keys[:, None].expand(weights.shape[:3]))
    return entropies.where(batch.real[:, None], 0.0).sum(-1) / batch.real.sum(-1)[:, None]


def _cls_entropy(
    weights: Float[Tensor, "b h t t"], keys: Int[Tensor, "b t"], batch: Batch, with_itself: bool
) -> Float[Tensor, "b h"]:
    """NaN where a sentence has no [CLS]."""
    where, rows = batch.cls.clamp_min(0), torch.arange(len(batch.cls), device=weights.device)
    p, n = weights[rows, :, where], keys[rows, where]
    if not with_itself:
        p = p.scatter(-1, where[:, None, None].expand(-1, p.shape[1], 1), 0.0)
        p, n = p / p.sum(-1, keepdim=True), n - 1
    found = normalized_entropy(p, n[:, None].expand(p.shape[:2]))
    return found.where((batch.cls >= 0)[:, None], math.nan)
