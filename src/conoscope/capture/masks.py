"""Masks: what a query may see."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.masking_utils import eager_mask

from conoscope.capture.batch import Batch


def _narrow(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype == torch.float64 else dtype


def finite_mask(*, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Tensor | None:
    """The eager mask, in float64 with float32's lowest number: a model that casts its scores to float32 (Llama,
    ModernBERT) would read float64's as -inf, and a padded row that sees no key would become NaN and spread."""
    mask: Tensor | None = eager_mask(dtype=_narrow(dtype), **kwargs)
    return None if mask is None else mask.to(dtype)


def visible_keys(mask: Float[Tensor, "#b #h i j"] | None, batch: Batch) -> Int[Tensor, "b #i"]:
    """How many keys each query may see; pads never count, since the mask hides them."""
    if mask is None:
        return batch.real.sum(-1, keepdim=True)

    def compute() -> tuple[Tensor, Tensor]:
        # With the mask itself, so that no other one comes to lie at its place.
        return mask, (mask[:, 0] > torch.finfo(_narrow(mask.dtype)).min / 2).sum(-1).expand(len(batch.real), -1)

    found: tuple[Tensor, Tensor] = batch.memo(("visible", id(mask)), compute)
    return found[1]
