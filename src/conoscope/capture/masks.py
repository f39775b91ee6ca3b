"""Attention masks: the keys that a query may see."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.masking_utils import eager_mask

from conoscope.capture.batch import Batch


def _narrow(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype == torch.float64 else dtype


def finite_mask(*, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Tensor | None:
    """The eager mask; in float64 it uses float32's lowest number. A model that casts its scores to float32 (Llama, ModernBERT)
    would turn float64's lowest into -inf, and a padding row that sees no key would become NaN and spread."""
    mask: Tensor | None = eager_mask(dtype=_narrow(dtype), **kwargs)
    return None if mask is None else mask.to(dtype)


def visible_keys(mask: Float[Tensor, "#b #h i j"] | None, batch: Batch) -> Int[Tensor, "b #i"]:
    """The number of keys that each query may see; padding never counts, since the mask hides it."""
    if mask is None:
        return batch.real.sum(-1, keepdim=True)

    def compute() -> tuple[Tensor, Tensor]:
        # Keeps the mask alive, so that no other mask can get its id.
        return mask, (mask[:, 0] > torch.finfo(_narrow(mask.dtype)).min / 2).sum(-1).expand(len(batch.real), -1)

    counted: tuple[Tensor, Tensor] = batch.memo(("visible", id(mask)), compute)
    return counted[1]
