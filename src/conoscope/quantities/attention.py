"""Attention: how the weights are spread."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.trace import Trace
from conoscope.quantities.base import Arrays, quantity
from conoscope.sums.numeric import entropy_of, normalized

ROWS = ("all", "cls", "cls_to_others")


@quantity(reductions=("entropy", "classifying"))
def attention_entropy(trace: Trace, row: str) -> Arrays | None:
    """Entropy of each sentence's attention rows: mean over all rows, the row of [CLS], or that row without [CLS] itself."""
    each = trace.reduction("entropy")
    if each is None or trace.visible is None:
        return None
    keys = trace.visible.expand_as(trace.batch.real)
    return (_mean_entropy(trace, each, keys) if row == "all" else _cls_entropy(trace, each, keys, with_itself=row == "cls"),)


def _mean_entropy(trace: Trace, each: Float[Tensor, "b h t"], keys: Int[Tensor, "b t"]) -> Float[Tensor, "b h"]:
    real = trace.batch.real
    entropy = normalized(each, keys[:, None])
    return entropy.where(real[:, None], 0.0).sum(-1) / real.sum(-1)[:, None]


def _cls_entropy(trace: Trace, each: Float[Tensor, "b h t"], keys: Int[Tensor, "b t"], with_itself: bool) -> Float[Tensor, "b h"]:
    """Entropy of the row of [CLS]; NaN where a sentence has no [CLS]."""
    n = of_classifying(trace, keys[:, None].to(each.dtype))
    if with_itself:
        return normalized(of_classifying(trace, each), n)
    weights, where = trace.reduction("classifying"), trace.batch.cls.clamp_min(0)
    assert weights is not None
    others = weights.scatter(-1, where[:, None, None].expand(-1, weights.shape[1], 1), 0.0)
    return normalized(entropy_of(others / others.sum(-1, keepdim=True)), n - 1)


def of_classifying(trace: Trace, each: Float[Tensor, "b h t"]) -> Float[Tensor, "b h"]:
    """The values at the token that the classifier reads; NaN where there is none."""
    at = trace.batch.cls[:, None, None]
    return each.gather(-1, at.clamp_min(0).expand(-1, each.shape[1], 1)).where(at >= 0, torch.nan)[..., 0]
