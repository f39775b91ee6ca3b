"""Attention backends, registered with transformers under fixed names, because each name has one mask function.

`conoscope_full` runs the model's own eager attention and records its weights, or reduces them in pieces; `conoscope_plain`
computes and reduces softmax(scale · q kᵀ + mask) itself, for models whose attention is no more than that; `conoscope_kv` runs
SDPA and records only queries, keys and values. `ways.py` says which runs when.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from conoscope.capture.calls import AttentionCall, Log
from conoscope.capture.eager import EagerAttention
from conoscope.capture.fused import FusedAttention
from conoscope.capture.masks import boolean_mask, finite_mask, visible_keys
from conoscope.capture.recording import Recorder
from conoscope.capture.reductions import AttentionChunk, Reducer
from conoscope.capture.softmax import PlainAttention
from conoscope.capture.traced_attention import TracedAttention
from conoscope.capture.ways import MASK, beyond_plain

Mode = Literal["kv", "full"]
MODES: tuple[Mode, ...] = ("full", "kv")
Backend = Literal["kv", "full", "plain"]
RECORDER: ContextVar[Recorder | Log | None] = ContextVar("conoscope_recorder", default=None)


def _full(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    eager, recorder = EagerAttention(module, query, key, value, attention_mask, kwargs), RECORDER.get()
    if isinstance(recorder, Recorder) and len(chunks := list(eager.chunks(recorder.weighing.cuts))) > 1:
        return _in_chunks(eager, recorder, chunks), None
    context, weights = eager()
    if isinstance(recorder, Log):
        recorder.attended(eager.attended(context), eager.cuts(context, weights), beyond_plain(eager))
    elif recorder is not None:
        recorder.attended(eager.attended(context), weights=weights, visible=visible_keys(attention_mask, recorder.batch))
    return context, weights


def _in_chunks(eager: EagerAttention, recorder: Recorder, chunks: Sequence[tuple[slice, slice]]) -> Tensor:
    """The context, concatenated from chunks; the weights of each chunk are reduced and discarded."""
    rows, heads, tokens = eager.query.shape[:3]
    reducer, whole = Reducer((rows, heads, tokens), recorder.weighing.reductions), None
    for examples, queries in chunks:
        context, weights = eager(examples, queries)
        reducer.take(AttentionChunk(weights, recorder.batch, examples, slice(None), queries))
        whole = context.new_empty(rows, tokens, *context.shape[2:]) if whole is None else whole
        whole[examples, queries] = context
    assert whole is not None

    def attend(examples: Tensor, size: int) -> Tensor:
        weights = eager(examples)[1] if "examples" in recorder.weighing.cuts else eager()[1][examples]
        return weights[..., :size, :size]

    recorder.attended(
        eager.attended(whole),
        visible=visible_keys(eager.mask, recorder.batch),
        reductions=reducer.results,
        attend=attend,
    )
    return whole


def _plain(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    recorder, causal = RECORDER.get(), _is_causal(module, query, attention_mask, kwargs)
    plain = PlainAttention(query, key, value, attention_mask, causal, float(kwargs["scaling"]))
    if not isinstance(recorder, Recorder):
        context = _sdpa(module, query, key, value, attention_mask, kwargs)
        if recorder is not None:
            hides = attention_mask is None or attention_mask.dtype == torch.bool
            recorder.attended(plain.attended(context), beyond="" if hides else MASK)
        return context, None
    # On a GPU the context is SDPA's, so that the logits are those of the plain model.
    mixed: Tensor | None = None
    if recorder.weighing.fused:
        reductions = FusedAttention(plain, recorder.batch).reduced()
    else:
        names, on_cpu = recorder.weighing.reductions, query.device.type == "cpu"
        mixed, reductions = plain.attend(names, recorder.batch, context=on_cpu)
    context = _sdpa(module, query, key, value, attention_mask, kwargs) if mixed is None else mixed
    recorder.attended(
        plain.attended(context),
        visible=visible_keys(attention_mask, recorder.batch, causal),
        reductions=reductions,
        attend=plain.maps,
    )
    return context, None


def _is_causal(module: nn.Module, query: Tensor, mask: Tensor | None, kwargs: dict[str, Any]) -> bool:
    """Whether a query sees only earlier keys without a mask that says so, as transformers tells SDPA."""
    given = kwargs.get("is_causal")
    causal = getattr(module, "is_causal", True) if given is None else given
    return bool(query.shape[2] > 1 and mask is None and causal)


def _sdpa(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, kwargs: dict[str, Any]
) -> Tensor:
    context: Tensor = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **kwargs)[0]
    return context


def _kv(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    context, recorder = _sdpa(module, query, key, value, attention_mask, kwargs), RECORDER.get()
    if recorder is not None:
        recorder.attended(AttentionCall(query, key, value, context))
    return context, None


def record_traced(traced: TracedAttention, mode: Mode) -> None:
    """Record an attention call that was traced operation by operation."""
    recorder = RECORDER.get()
    if isinstance(recorder, Log) or (recorder is not None and mode == "kv"):
        recorder.attended(traced.attended)
    elif recorder is not None:
        recorder.attended(traced.attended, weights=traced.weights, visible=traced.visible())


BACKENDS: dict[Backend, str] = {"full": "conoscope_full", "plain": "conoscope_plain", "kv": "conoscope_kv"}
for _backend, _attention, _mask in (("full", _full, finite_mask), ("plain", _plain, boolean_mask), ("kv", _kv, boolean_mask)):
    AttentionInterface.register(BACKENDS[_backend], _attention)  # type: ignore[index]
    AttentionMaskInterface.register(BACKENDS[_backend], _mask)  # type: ignore[index]
