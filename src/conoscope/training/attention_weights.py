"""Attention weights with their gradient, before dropout, for penalties in training.

An attention backend registered with transformers: it runs the model's own eager attention without dropout, appends the weights to
the collecting list, and then computes the context with dropped-out weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from conoscope.capture.eager import eager_attention
from conoscope.common.errors import CaptureError, ModelError

BACKEND = "conoscope_weights"
_WEIGHTS: ContextVar[list[Tensor] | None] = ContextVar("conoscope_maps", default=None)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    context, weights = eager_attention(module)(module, query, key, value, attention_mask, dropout=0.0, **kwargs)
    collecting = _WEIGHTS.get()
    if collecting is not None:
        collecting.append(weights)
    if dropout:
        kept = nn.functional.dropout(weights, dropout)
        grouped = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
        context = (kept @ grouped).transpose(1, 2).contiguous()
    return context, weights


def _mask(*, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Tensor | None:
    """The mask of transformers' eager attention, 0 or the lowest number, without a copy to the GPU that a CUDA graph cannot
    hold."""
    seen: Tensor | None = sdpa_mask(**{**kwargs, "allow_is_causal_skip": False})
    return None if seen is None else torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)


AttentionInterface.register(BACKEND, _attend)
AttentionMaskInterface.register(BACKEND, _mask)


@contextmanager
def collected(module: PreTrainedModel) -> Iterator[list[Tensor]]:
    """Context manager that yields a list to which every layer appends its weights (b, h, i, j).

    A layer that runs again in backward (gradient checkpointing) appends nothing.
    """
    weights: list[Tensor] = []
    token = _WEIGHTS.set(weights)
    try:
        yield weights
    finally:
        _WEIGHTS.reset(token)
    if not weights:
        raise CaptureError(
            f"{type(module).__name__} never called transformers' attention interface, so its attention cannot be penalised"
        )
    if module.training and any(p.requires_grad for p in module.parameters()) and not all(w.requires_grad for w in weights):
        raise ModelError(
            "attention has no gradient: reentrant gradient checkpointing hides it from a penalty; "
            'use gradient_checkpointing_kwargs={"use_reentrant": False}'
        )
