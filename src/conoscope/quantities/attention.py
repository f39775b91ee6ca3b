"""Attention: how the weights are spread."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.quantities.base import Arrays, quantity
from conoscope.sums.numeric import entropy_of, normalized

ROWS = ("all", "cls", "cls_to_others")


@quantity()
def attention_entropy(
    batch: Batch,
    entropy: Float[Tensor, "l b h t"],
    classifying: Float[Tensor, "l b h t"],
    visible: Int[Tensor, "l b t"],
    row: str,
) -> Arrays:
    """Entropy of each sentence's attention rows: mean over all rows, the row of [CLS], or that row without [CLS] itself."""
    keys = visible[:, :, None]
    if row == "all":
        mean = normalized(entropy, keys).where(batch.real[:, None], 0.0).sum(-1) / batch.length
        return (mean,)
    n = of_classifying(batch, keys.to(entropy.dtype))
    if row == "cls":
        return (normalized(of_classifying(batch, entropy), n),)
    where = batch.cls.clamp_min(0)[:, None, None].expand(*entropy.shape[:3], 1)
    others = classifying.scatter(-1, where, 0.0)
    return (normalized(entropy_of(others / others.sum(-1, keepdim=True)), n - 1),)


@quantity()
def softmaxed_entropy(batch: Batch, classifying: Float[Tensor, "l b h t"]) -> Arrays:
    """Entropy of [CLS]'s row after a second softmax, over a sentence's real tokens."""
    shares = classifying.masked_fill(~batch.real[:, None], -torch.inf).softmax(-1)
    found = normalized(entropy_of(shares), batch.length)
    return (found.where(batch.cls[:, None] >= 0, torch.nan),)


def of_classifying(batch: Batch, each: Float[Tensor, "l b h t"]) -> Float[Tensor, "l b h"]:
    """The values at the token that the classifier reads; NaN where there is none."""
    at = batch.cls[:, None, None]
    return each.gather(-1, at.clamp_min(0).expand(*each.shape[:3], 1)).where(at >= 0, torch.nan)[..., 0]
