"""Attention masks: the keys that a query may see.

A batch knows in the CPU's memory whether it has padding. `transformers` asks the mask on the GPU and waits for the answer; the
mask functions here are told.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.masking_utils import eager_mask, sdpa_mask
from transformers.utils import import_utils

from conoscope.capture.batch import Batch

PADDED: ContextVar[bool | None] = ContextVar("conoscope_padded", default=None)
"""Whether the batch that runs has padding; None if that is not known."""


ROWS = 1024
"""How many rows of a mask are counted at once."""


@contextmanager
def without_graph_capture() -> Iterator[None]:
    """Context in which transformers builds the same masks as if no CUDA graph were captured: none where nothing is hidden.

    It would not ask a GPU then whether anything is padded; with the mask functions here, it never does.
    """
    name = "is_cuda_stream_capturing"
    before = getattr(import_utils, name, None)
    if before is not None:
        setattr(import_utils, name, lambda: False)
    try:
        yield
    finally:
        if before is not None:
            setattr(import_utils, name, before)


def _seen(mask: Float[Tensor, "*s j"] | Bool[Tensor, "*s j"]) -> Bool[Tensor, "*s j"]:
    return mask if mask.dtype == torch.bool else mask > torch.finfo(_narrow(mask.dtype)).min / 2


def _narrow(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype == torch.float64 else dtype


def _known(attention_mask: Tensor | None, kwargs: dict[str, Any]) -> tuple[Tensor | None, dict[str, Any]]:
    """The padding mask, or None if nothing is padded, and arguments by which nothing is asked of it."""
    padded = PADDED.get()
    if padded is None or attention_mask is None:
        return attention_mask, kwargs
    skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return (attention_mask, {**kwargs, **skips}) if padded else (None, kwargs)


def finite_mask(*, dtype: torch.dtype = torch.float32, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
    """The eager mask; in float64 it uses float32's lowest number. A model that casts its scores to float32 (Llama, ModernBERT)
    would turn float64's lowest into -inf, and a padding row that sees no key would become NaN and spread."""
    known, options = _known(attention_mask, kwargs)
    mask: Tensor | None = eager_mask(dtype=_narrow(dtype), attention_mask=known, **options)
    return None if mask is None else mask.to(dtype)


def boolean_mask(*, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
    """SDPA's mask: True where a query may see a key; None if nothing is hidden, or only what is later (`is_causal`)."""
    known, options = _known(attention_mask, kwargs)
    mask: Tensor | None = sdpa_mask(attention_mask=known, **options)
    return mask


def hides_alone(mask: Float[Tensor, "#b #h i j"] | None) -> bool:
    """Whether an additive mask does nothing but hide keys: every number in it is 0, or far below any score."""
    return mask is None or bool(((mask == 0) | (mask <= torch.finfo(_narrow(mask.dtype)).min / 2)).all())


def visible_keys(
    mask: Float[Tensor, "#b #h i j"] | Bool[Tensor, "#b #h i j"] | None, batch: Batch, causal: bool = False
) -> Int[Tensor, "b #i"]:
    """The number of keys that each query may see; padding never counts, since the mask hides it."""
    if mask is None:
        return batch.real.cumsum(-1) if causal else batch.memo("visible", lambda: batch.real.sum(-1, keepdim=True))

    def compute() -> tuple[Tensor, Tensor]:
        # A sum of booleans takes eight bytes each: some rows at a time.
        counts = [_seen(rows).sum(-1) for rows in mask[:, 0].split(ROWS, dim=1)]
        # Keeps the mask alive, so that no other mask can get its id.
        return mask, torch.cat(counts, dim=1).expand(len(batch.real), -1)

    counted: tuple[Tensor, Tensor] = batch.memo(("visible", id(mask)), compute)
    return counted[1]
