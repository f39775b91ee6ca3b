"""Capture: the one seam between us and any Hugging Face model.

Two attention backends are registered with transformers, under two fixed names because a name has one mask:
`conoscope_full` runs the model's own eager attention and hands over its weights; `conoscope_kv` runs SDPA and hands
over queries, keys and values alone. A model that calls neither runs its own eager attention, which `softmax` follows.
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

from conoscope.attending import attention_of
from conoscope.batches import Batch
from conoscope.calls import Attended, Log, logged
from conoscope.errors import CaptureError, OverflowedError
from conoscope.looks import LOOKS, Looking, Piece
from conoscope.masks import finite_mask, visible_keys
from conoscope.memory import keep_memory
from conoscope.native import Native
from conoscope.passing import answer_of, outputs_of
from conoscope.pooling import Vector
from conoscope.reading import known_ids, named_pad, trial_length
from conoscope.softmax import Followed, Following, paused
from conoscope.traces import Receive, ReceiveAnswer, Recorder, Trace, Weighing
from conoscope.wiring import Wiring, find_wiring, is_sound

Mode = Literal["kv", "full"]
DRAWS = 16
"""How many batches of random tokens are tried: some token may make a model overflow that the texts do not have."""


_RECORDER: ContextVar[Recorder | Log | None] = ContextVar("conoscope_recorder", default=None)


def _full(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    native, recorder = Native(module, query, key, value, attention_mask, kwargs), _RECORDER.get()
    if isinstance(recorder, Recorder) and len(pieces := list(native.pieces(recorder.weighing.cuts))) > 1:
        return _in_pieces(native, recorder, pieces), None
    context, weights = native()
    if isinstance(recorder, Log):
        recorder.attended(native.attended(context), native.cuts(context, weights))
    elif recorder is not None:
        recorder.attended(native.attended(context), weights=weights, visible=visible_keys(attention_mask, recorder.batch))
    return context, weights


def _in_pieces(native: Native, recorder: Recorder, pieces: Sequence[tuple[slice, slice]]) -> Tensor:
    """The context, put together from pieces whose weights are looked at and gone."""
    looking, contexts = Looking(recorder.batch, recorder.weighing.looks), []
    for examples, rows in pieces:
        context, weights = native(examples, rows)
        looking.take(Piece(weights, recorder.batch, examples.start, rows.start))
        contexts.append(context)
    # The pieces of one example's rows lie side by side, then the examples.
    by_rows = sum(examples == pieces[0][0] for examples, _ in pieces)
    whole = torch.cat([torch.cat(contexts[start : start + by_rows], dim=1) for start in range(0, len(contexts), by_rows)])
    recorder.attended(
        native.attended(whole),
        visible=visible_keys(native.mask, recorder.batch),
        looks=looking.found(),
        attend=lambda examples: native(examples)[1] if "examples" in recorder.weighing.cuts else native()[1][examples],
    )
    return whole


def _kv(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    context, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **kwargs)
    recorder = _RECORDER.get()
    if recorder is not None:
        recorder.attended(Attended(query, key, value, context))
    return context, None


def _record_followed(found: Followed, mode: Mode) -> None:
    recorder = _RECORDER.get()
    if isinstance(recorder, Log) or (recorder is not None and mode == "kv"):
        recorder.attended(found.attended)
    elif recorder is not None:
        recorder.attended(found.attended, weights=found.weights, visible=found.visible())


BACKENDS: dict[Mode, str] = {"full": "conoscope_full", "kv": "conoscope_kv"}
for _mode, _attention, _mask in (("full", _full, finite_mask), ("kv", _kv, sdpa_mask)):
    AttentionInterface.register(BACKENDS[_mode], _attention)  # type: ignore[index]
    AttentionMaskInterface.register(BACKENDS[_mode], _mask)  # type: ignore[index]


class Capture:
    """Within it, `capture(batch, receive)` runs the model and hands one Trace a layer to `receive`.

    >>> with Capture(model, "full") as capture:
    ...     logits = capture(batch, print)
    """

    def __init__(
        self,
        module: PreTrainedModel,
        mode: Mode = "full",
        looks: Collection[str] = tuple(LOOKS),
        whole: bool = False,
        heads: Mapping[int, Sequence[int]] | None = None,
        vector: Vector | None = None,
    ) -> None:
        """`looks`: what is kept of weights that are too many to be whole; `whole`: they are kept however many they are; `heads`:
        those of each layer whose weights are kept until the model has answered; `vector`: which one an answer holds of each
        layer, instead of what the classifier reads."""
        if module.config.is_encoder_decoder:
            raise CaptureError(
                f"{type(module).__name__} is an encoder-decoder, whose layers have no one order; give an encoder or a decoder"
            )
        if getattr(module.config, "attention_type", None) == "block_sparse":
            raise CaptureError(
                f"{type(module).__name__} attends to blocks of tokens until it meets a short text, and then for good to all; "
                'load it with attention_type="original_full"'
            )
        self.module, self.asked = module, mode
        self.mode: Mode = mode if getattr(module, "_supports_sdpa", False) else "full"
        self.looks = [name for name in LOOKS if name in looks]
        self.whole, self.heads, self.vector = whole, heads or {}, vector
        self.followed = False
        """Whether the model is off the interface, so that its attention is followed operation by operation."""
        self.wiring: Wiring | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        keep_memory()
        self._stack.enter_context(attention_of(self.module, BACKENDS[self.mode]))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def __call__(self, batch: Batch, receive: Receive, answer: ReceiveAnswer | None = None) -> Float[Tensor, "..."]:
        """Run one batch; what is returned is the model's logits, or its last hidden state where it has none.

        After the pass `answer` is handed, for each layer, the vector that stands for the text: what the classifier reads, or the
        one that was asked for.
        """
        batch, wiring = batch.to(self.module.device), self.find_wiring()
        cuts = frozenset[str]() if self.whole else wiring.cuts
        recorder = Recorder(wiring, batch, (receive, answer), Weighing(self.looks, cuts, self.heads))
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
        """The model's wiring, found once on random tokens, with the pooling that was asked for in the place of its own."""
        if self.wiring is None:
            found = self._calibrate()
            self._refuse_unknown_heads(found.heads)
            for module in found.modules():
                handle = module.register_forward_hook(_watch)
                self._stack.callback(handle.remove)
            self.wiring = found.with_pooling(self.vector)
        return self.wiring

    def _refuse_unknown_heads(self, there: Sequence[int]) -> None:
        for layer, heads in self.heads.items():
            if layer > len(there) or max(heads) > there[layer - 1]:
                raise CaptureError(
                    f"{type(self.module).__name__} has no head {layer}.{max(heads)}; it has {len(there)} layers of "
                    f"{max(there)} heads, so name one from 1.1 to {len(there)}.{there[-1]}"
                )

    @contextmanager
    def recording(self, recorder: Recorder | Log, batch: Batch) -> Iterator[None]:
        """Within it, without gradients, what the model does with the batch goes to the recorder."""
        with recording(recorder), ExitStack() as stack:
            if self.followed:
                stack.enter_context(Following(batch.real.shape, partial(_record_followed, mode=self.mode)))
            yield

    def _calibrate(self) -> Wiring:
        """Of the first batch of random tokens that leaves numbers: NaN and infinity cannot be told from one another."""
        for seed in range(DRAWS):
            batch = _random_batch(self.module, seed)
            log, states = self._logged(batch)
            if not log.attentions and not self.followed:
                self._follow()
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

    def _follow(self) -> None:
        """Look at the operations of the model's own eager attention, in every pass from now on."""
        self.followed, self.mode = True, self.asked
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
    """Within it, without gradients, what the model does goes to the recorder."""
    token = _RECORDER.set(recorder)
    try:
        with torch.no_grad():
            yield
    finally:
        _RECORDER.reset(token)


def traces_of(module: PreTrainedModel, batch: Batch, mode: Mode = "full") -> list[Trace]:
    """Every layer's trace of one batch, kept: for looking at a few texts, not for a corpus."""
    traces: list[Trace] = []
    with Capture(module, mode, whole=True) as capture:
        capture(batch, traces.append)
    return traces


def verify(module: PreTrainedModel, batch: Batch | None = None) -> dict[Mode, float]:
    """The largest difference of logits: full capture against eager, kv capture against SDPA. Both should be 0.

    A model off the interface is run in eager for both. Without a batch, a padded one of random tokens is tried.
    """
    batch = (_random_batch(module) if batch is None else batch).to(module.device)
    found: dict[Mode, float] = {}
    for mode in BACKENDS:
        with Capture(module, mode) as capture:
            captured = capture(batch, lambda trace: None)
        with attention_of(module, "sdpa" if capture.mode == "kv" and not capture.followed else "eager"), torch.no_grad():
            found[mode] = float((captured - answer_of(module, batch)).abs().max())
    return found


def known_tokens(module: PreTrainedModel) -> Int[Tensor, " n"]:
    """The ids of all tokens but the padding."""
    known = torch.arange(known_ids(module))
    return known[known != (named_pad(module) or 0)]


def bare_batch(module: PreTrainedModel, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Batch:
    """Known tokens as a batch, padded as the model's configuration says, or with token 0 where it says nothing."""
    pad = named_pad(module)
    return replace(Batch.of_ids(ids.where(real, pad or 0), real), pad=0 if pad is None else None).to(module.device)


def _random_batch(module: PreTrainedModel, seed: int = 0) -> Batch:
    """Three rows of random tokens, two of them padded, of lengths that tell the first token, the last and the mean apart."""
    longest = trial_length(module)
    real = torch.arange(longest) < torch.tensor([[longest], [longest - 1], [2]])
    known = known_tokens(module)
    ids = known[torch.randint(len(known), real.shape, generator=torch.Generator().manual_seed(seed))]
    return bare_batch(module, ids, real)
