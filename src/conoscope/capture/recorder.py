"""Capture: the only interface between conoscope and Hugging Face models.

Two attention backends are registered with transformers, under two fixed names because each name has one mask function:
`conoscope_full` runs the model's own eager attention and records its weights; `conoscope_kv` runs SDPA and records only queries,
keys and values. A model that calls neither runs its own eager attention, which `traced_attention` traces.
A layer's tensors reach `receive` as one Trace before the next layer runs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from conoscope.capture.batch import Batch
from conoscope.capture.calls import AttentionCall, Log, logged
from conoscope.capture.class_token import known_ids, named_pad, trial_length
from conoscope.capture.eager import EagerAttention
from conoscope.capture.forward import answer_of, outputs_of
from conoscope.capture.implementation import attention_of
from conoscope.capture.masks import finite_mask, visible_keys
from conoscope.capture.memory import keep_memory
from conoscope.capture.reductions import REDUCTIONS, AttentionChunk, Reducer
from conoscope.capture.trace import Receive, ReceiveAnswer, Recorder, Trace, Weighing
from conoscope.capture.traced_attention import AttentionTracer, TracedAttention, paused
from conoscope.capture.wiring import Wiring, find_wiring, is_sound
from conoscope.common.errors import CaptureError, OverflowedError
from conoscope.common.pooling import Vector

Mode = Literal["kv", "full"]
DRAWS = 16
"""How many batches of random tokens are tried: a model may overflow on a token that the texts do not contain."""


_RECORDER: ContextVar[Recorder | Log | None] = ContextVar("conoscope_recorder", default=None)


def _full(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    eager, recorder = EagerAttention(module, query, key, value, attention_mask, kwargs), _RECORDER.get()
    if isinstance(recorder, Recorder) and len(chunks := list(eager.chunks(recorder.weighing.cuts))) > 1:
        return _in_chunks(eager, recorder, chunks), None
    context, weights = eager()
    if isinstance(recorder, Log):
        recorder.attended(eager.attended(context), eager.cuts(context, weights))
    elif recorder is not None:
        recorder.attended(eager.attended(context), weights=weights, visible=visible_keys(attention_mask, recorder.batch))
    return context, weights


def _in_chunks(eager: EagerAttention, recorder: Recorder, chunks: Sequence[tuple[slice, slice]]) -> Tensor:
    """The context, concatenated from chunks; the weights of each chunk are reduced and discarded."""
    reducer, contexts = Reducer(recorder.batch, recorder.weighing.reductions), []
    for examples, rows in chunks:
        context, weights = eager(examples, rows)
        reducer.take(AttentionChunk(weights, recorder.batch, examples.start, rows.start))
        contexts.append(context)
    # Chunks are ordered by example, then by row.
    by_rows = sum(examples == chunks[0][0] for examples, _ in chunks)
    whole = torch.cat([torch.cat(contexts[start : start + by_rows], dim=1) for start in range(0, len(contexts), by_rows)])
    recorder.attended(
        eager.attended(whole),
        visible=visible_keys(eager.mask, recorder.batch),
        reductions=reducer.results(),
        attend=lambda examples: eager(examples)[1] if "examples" in recorder.weighing.cuts else eager()[1][examples],
    )
    return whole


def _kv(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    context, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **kwargs)
    recorder = _RECORDER.get()
    if recorder is not None:
        recorder.attended(AttentionCall(query, key, value, context))
    return context, None


def _record_traced(traced: TracedAttention, mode: Mode) -> None:
    recorder = _RECORDER.get()
    if isinstance(recorder, Log) or (recorder is not None and mode == "kv"):
        recorder.attended(traced.attended)
    elif recorder is not None:
        recorder.attended(traced.attended, weights=traced.weights, visible=traced.visible())


BACKENDS: dict[Mode, str] = {"full": "conoscope_full", "kv": "conoscope_kv"}
for _mode, _attention, _mask in (("full", _full, finite_mask), ("kv", _kv, sdpa_mask)):
    AttentionInterface.register(BACKENDS[_mode], _attention)  # type: ignore[index]
    AttentionMaskInterface.register(BACKENDS[_mode], _mask)  # type: ignore[index]


class Capture:
    """Context manager: `capture(batch, receive)` runs the model and passes one Trace per layer to `receive`.

    >>> with Capture(model, "full") as capture:
    ...     logits = capture(batch, print)
    """

    def __init__(
        self,
        module: PreTrainedModel,
        mode: Mode = "full",
        reductions: Collection[str] = tuple(REDUCTIONS),
        whole: bool = False,
        heads: Mapping[int, Sequence[int]] | None = None,
        vector: Vector | None = None,
    ) -> None:
        """`reductions`: what is computed from weights that are too large to keep; `whole`: keep the weights at any size; `heads`:
        the heads of each layer whose weights are kept until the end of the pass; `vector`: the pooled output of each layer, if
        not what the classifier reads."""
        if module.config.is_encoder_decoder:
            raise CaptureError(
                f"{type(module).__name__} is an encoder-decoder, whose layers have no one order; give an encoder or a decoder"
            )
        if getattr(module.config, "attention_type", None) == "block_sparse":
            raise CaptureError(
                f"{type(module).__name__} attends to blocks of tokens until it meets a short text, and then for good to all; "
                'load it with attention_type="original_full"'
            )
        self.module, self._requested = module, mode
        self.mode: Mode = mode if getattr(module, "_supports_sdpa", False) else "full"
        self.reductions = [name for name in REDUCTIONS if name in reductions]
        self.whole, self.heads, self.vector = whole, heads or {}, vector
        self.traced = False
        """Whether the model is off the attention interface, so that its attention is traced operation by operation."""
        self.wiring: Wiring | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        keep_memory()
        self._stack.enter_context(attention_of(self.module, BACKENDS[self.mode]))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def __call__(self, batch: Batch, receive: Receive, answer: ReceiveAnswer | None = None) -> Float[Tensor, "..."]:
        """Run one batch and return the model's logits, or its last hidden state if it has no logits.

        After the pass, `answer` receives the PooledOutput of each layer: what the classifier reads, or the requested `vector`.
        """
        batch, wiring = batch.to(self.module.device), self.find_wiring()
        cuts = frozenset[str]() if self.whole else wiring.cuts
        recorder = Recorder(wiring, batch, (receive, answer), Weighing(self.reductions, cuts, self.heads))
        with self.recording(recorder, batch):
            result = answer_of(self.module, batch)
            if recorder.layer != len(wiring.inputs):
                raise CaptureError(
                    f"{type(self.module).__name__} showed {recorder.layer} attentions in {batch.real.shape[1]} tokens and "
                    f"{len(wiring.inputs)} in fewer: it attends otherwise to long texts; give a smaller --max-length"
                )
            with paused():
                recorder.refuse_overflow(type(self.module).__name__, self.module.dtype)
                recorder.answered(result if result.ndim == 2 else None)
        return result

    def find_wiring(self) -> Wiring:
        """The model's wiring, found once on random tokens; the requested pooling replaces the model's own."""
        if self.wiring is None:
            wiring = self._calibrate()
            self._refuse_unknown_heads(wiring.heads)
            for module in wiring.modules():
                handle = module.register_forward_hook(_watch)
                self._stack.callback(handle.remove)
            self.wiring = wiring.with_pooling(self.vector)
        return self.wiring

    def _refuse_unknown_heads(self, counts: Sequence[int]) -> None:
        for layer, heads in self.heads.items():
            if layer > len(counts) or max(heads) > counts[layer - 1]:
                raise CaptureError(
                    f"{type(self.module).__name__} has no head {layer}.{max(heads)}; it has {len(counts)} layers of "
                    f"{max(counts)} heads, so name one from 1.1 to {len(counts)}.{counts[-1]}"
                )

    @contextmanager
    def recording(self, recorder: Recorder | Log, batch: Batch) -> Iterator[None]:
        """Context, without gradients, in which the recorder receives the model's calls on the batch."""
        with recording(recorder), ExitStack() as stack:
            if self.traced:
                stack.enter_context(AttentionTracer(batch.real.shape, partial(_record_traced, mode=self.mode)))
            yield

    def _calibrate(self) -> Wiring:
        """The wiring from the first batch of random tokens without overflow: tensors of NaN or infinity cannot be matched."""
        for seed in range(DRAWS):
            batch = _random_batch(self.module, seed)
            log, states = self._logged(batch)
            if not log.attentions and not self.traced:
                self._start_tracing()
                log, states = self._logged(batch)
            self._refuse_unseen(log, states)
            if is_sound(log, states, batch.real):
                return find_wiring(log, states, batch.real)
        raise OverflowedError.of(type(self.module).__name__, "random tokens", self.module.dtype)

    def _refuse_unseen(self, log: Log, states: Sequence[Tensor]) -> None:
        name, layers = type(self.module).__name__, len(log.attentions)
        if not layers:
            raise CaptureError(
                f"{name} ({self.module.config.model_type}) never called transformers' attention interface, nor multiplied values "
                "by a softmax over all tokens, so its attention cannot be captured; supported are models on the interface, such "
                "as BERT, RoBERTa, DistilBERT, ELECTRA, ALBERT, ModernBERT, GPT-2, Llama, and plain attention off it, as in "
                'DeBERTa, MPNet; a model that runs SDPA by itself must be loaded with attn_implementation="eager"'
            )
        if len(states) != layers + 1:
            raise CaptureError(
                f"{name} called attention {layers} times for {len(states) - 1} layers; one call a layer is expected"
            )

    def _start_tracing(self) -> None:
        """Trace the operations of the model's own eager attention, in every pass from now on."""
        self.traced, self.mode = True, self._requested
        self._stack.enter_context(attention_of(self.module, "eager"))

    def _logged(self, batch: Batch) -> tuple[Log, Sequence[Tensor]]:
        log = Log()
        with self.recording(log, batch), logged(self.module, log):
            outputs = outputs_of(self.module, batch, output_hidden_states=True)
        return log, getattr(outputs, "hidden_states", None) or ()


def _watch(module: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
    recorder = _RECORDER.get()
    if isinstance(recorder, Recorder):
        with paused():
            recorder.called(module, given, returned)


@contextmanager
def recording(recorder: Recorder | Log) -> Iterator[None]:
    """Context, without gradients, in which the recorder receives the model's calls."""
    token = _RECORDER.set(recorder)
    try:
        with torch.no_grad():
            yield
    finally:
        _RECORDER.reset(token)


def traces_of(module: PreTrainedModel, batch: Batch, mode: Mode = "full") -> list[Trace]:
    """The traces of all layers for one batch, all kept in memory: for a few texts, not for a corpus."""
    traces: list[Trace] = []
    with Capture(module, mode, whole=True) as capture:
        capture(batch, traces.append)
    return traces


def verify(module: PreTrainedModel, batch: Batch | None = None) -> dict[Mode, float]:
    """The largest difference in logits: full capture against eager, kv capture against SDPA. Both should be 0.

    A model off the attention interface runs in eager for both. Without a batch, a padded one of random tokens is used.
    """
    batch = (_random_batch(module) if batch is None else batch).to(module.device)
    differences: dict[Mode, float] = {}
    for mode in BACKENDS:
        with Capture(module, mode) as capture:
            captured = capture(batch, lambda trace: None)
        with attention_of(module, "sdpa" if capture.mode == "kv" and not capture.traced else "eager"), torch.no_grad():
            differences[mode] = float((captured - answer_of(module, batch)).abs().max())
    return differences


def known_tokens(module: PreTrainedModel) -> Int[Tensor, " n"]:
    """The ids of all tokens except the padding token."""
    known = torch.arange(known_ids(module))
    return known[known != (named_pad(module) or 0)]


def bare_batch(module: PreTrainedModel, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Batch:
    """A batch of bare token ids, padded with the id in the model's configuration, or with 0 if it names none."""
    pad = named_pad(module)
    return replace(Batch.of_ids(ids.where(real, pad or 0), real), pad=0 if pad is None else None).to(module.device)


def _random_batch(module: PreTrainedModel, seed: int = 0) -> Batch:
    """Three rows of random tokens, two of them padded; their lengths distinguish the first token, the last and the mean."""
    longest = trial_length(module)
    real = torch.arange(longest) < torch.tensor([[longest], [longest - 1], [2]])
    known = known_tokens(module)
    ids = known[torch.randint(len(known), real.shape, generator=torch.Generator().manual_seed(seed))]
    return bare_batch(module, ids, real)
