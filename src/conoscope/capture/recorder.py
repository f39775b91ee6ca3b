"""Capture: the only interface between conoscope and Hugging Face models.

A model runs with one of our attention backends (`backends.py`); one that never calls them runs its own eager attention, which
`traced_attention` traces. A layer's tensors reach `receive` as one Trace before the next layer runs.
"""

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from conoscope.capture.backends import BACKENDS, MODES, RECORDER, Mode, record_traced
from conoscope.capture.batch import Batch
from conoscope.capture.calls import OUTSIDE, Log, logged
from conoscope.capture.forward import answer_of, outputs_of
from conoscope.capture.fused import try_attention, try_vectors
from conoscope.capture.implementation import attention_of
from conoscope.capture.masks import PADDED
from conoscope.capture.memory import keep_memory
from conoscope.capture.recording import Receive, ReceiveAnswer, Recorder, Weighing
from conoscope.capture.reductions import REDUCTIONS
from conoscope.capture.trace import Trace
from conoscope.capture.traced_attention import AttentionTracer, paused
from conoscope.capture.trial_batches import random_batch
from conoscope.capture.ways import OURS, Choice, choose
from conoscope.capture.wiring import Wiring, find_wiring, is_sound
from conoscope.common.errors import CaptureError, OverflowedError
from conoscope.common.pooling import Vector

DRAWS = 16
"""How many batches of random tokens are tried: a model may overflow on a token that the texts do not contain."""


@dataclass(frozen=True)
class Passed:
    """One forward pass: the model's logits, or its last hidden state if it has no logits; and a mask of the examples without
    overflow, in any layer or in the result. Both are on the model's device: reading them waits for the pass."""

    model: str
    batch: Batch
    result: Float[Tensor, "..."]
    sound: Bool[Tensor, " b"]

    def refuse_overflow(self) -> None:
        """OverflowedError if an example overflowed."""
        if not bool(self.sound.all()):
            raise OverflowedError.of(self.model, self.batch.ids[int((~self.sound).nonzero()[0])], self.dtype)

    def finite(self) -> Bool[Tensor, " b"]:
        """Mask of the examples whose result is finite, at real tokens."""
        finite = self.result.isfinite()
        return (finite.flatten(1) if self.result.ndim == 2 else finite.all(-1) | ~self.batch.real).all(-1)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the result."""
        return self.result.dtype


class Capture:
    """Context manager: `capture(batch, receive)` runs the model and passes one Trace per layer to `receive`.

    It can be entered again: the wiring is found once, and between two times the model is as it was.

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
        masks: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """`reductions`: what is computed from weights that are not kept; `whole`: keep the weights at any size; `heads`: the
        heads of each layer whose weights are kept until the end of the pass; `vector`: the pooled output of each layer, if not
        what the classifier reads; `masks`: by which masks the vectors of each site will be summed."""
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
        self.whole, self.heads, self.vector, self.masks = whole, heads or {}, vector, masks or {}
        self.choice: Choice | None = None
        """The way to attention weights, chosen when the wiring is found; None in kv mode."""
        self.traced = False
        """Whether the model is off the attention interface, so that its attention is traced operation by operation."""
        self.wiring: Wiring | None = None
        self.classes: int | None = None
        """The number of classes that the model tells apart, known with the wiring; None if it does not classify."""
        self._attention, self._stack = BACKENDS[self.mode], ExitStack()

    def __enter__(self) -> Self:
        keep_memory()
        self._stack.enter_context(attention_of(self.module, self._attention))
        if self.wiring is not None:
            self._hook(self.wiring)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def __call__(self, batch: Batch, receive: Receive, answer: ReceiveAnswer | None = None) -> Float[Tensor, "..."]:
        """Run one batch and return the model's logits, or its last hidden state if it has no logits.

        After the pass, `answer` receives the PooledOutput of each layer: what the classifier reads, or the requested `vector`.
        OverflowedError if a layer has NaN or infinity.
        """
        passed, recorder = self._pass(batch, receive, answer)
        passed.refuse_overflow()
        recorder.answered(passed.result)
        return passed.result

    def run(self, batch: Batch, receive: Receive, answer: ReceiveAnswer | None = None) -> Passed:
        """The same without waiting for a GPU: `answer` is called before anyone knows whether the pass overflowed."""
        passed, recorder = self._pass(batch, receive, answer)
        recorder.answered(passed.result)
        return passed

    def _pass(self, batch: Batch, receive: Receive, answer: ReceiveAnswer | None) -> tuple[Passed, Recorder]:
        batch, wiring = batch.to(self.module.device), self.find_wiring()
        cuts, fused = frozenset[str]() if self.whole else wiring.cuts, self.choice is not None and self.choice.way == "fused"
        recorder = Recorder(wiring, batch, (receive, answer), Weighing(self.reductions, cuts, self.heads, fused, self.masks))
        with self.recording(recorder, batch):
            result = answer_of(self.module, batch)
            if recorder.layer != len(wiring.inputs):
                raise CaptureError(
                    f"{type(self.module).__name__} showed {recorder.layer} attentions in {batch.real.shape[1]} tokens and "
                    f"{len(wiring.inputs)} in fewer: it attends otherwise to long texts; give a smaller --max-length"
                )
            with paused():
                sound = recorder.sound()
        return Passed(type(self.module).__name__, batch, result, sound), recorder

    def find_wiring(self) -> Wiring:
        """The model's wiring, found once on random tokens; the requested pooling replaces the model's own."""
        if self.wiring is None:
            wiring = self._calibrate()
            self._refuse_unknown_heads(wiring.heads)
            self._hook(wiring)
            self.wiring = wiring.with_pooling(self.vector)
        return self.wiring

    def _hook(self, wiring: Wiring) -> None:
        for module in wiring.modules():
            self._stack.callback(module.register_forward_hook(_watch).remove)

    def _choose_way(self, wiring: Wiring, batch: Batch, log: Log, states: Sequence[Tensor]) -> None:
        """Choose the way to attention weights, and switch to our own attention if it gives the same hidden states."""
        if self.mode != "full":
            return
        device, dtype, first = self.module.device, self.module.dtype, log.attentions[0]
        within = not self.traced and getattr(self.module, "_supports_sdpa", False)
        beyond = wiring.beyond if within else OUTSIDE

        def try_kernels() -> str | None:
            assert first.query is not None
            assert first.key is not None
            return try_attention(first.query, first.key, first.value, batch)

        self.choice = choose(device, dtype, beyond, self.whole, try_kernels)
        if self.choice.way in OURS:
            with ExitStack() as trial:
                trial.enter_context(attention_of(self.module, BACKENDS["plain"]))
                again, ours = self._logged(batch)
                if not again.beyond and _agree(ours, states, batch.real):
                    self._stack.push(trial.pop_all())
                    self._attention = BACKENDS["plain"]
                    return
            self.choice = choose(device, dtype, again.beyond or "without its own attention its vectors differ", self.whole)

    def waits(self) -> bool:
        """Whether the model's own forward pass waits for a GPU; its mask functions are told if there is padding."""
        batch = random_batch(self.module)
        with recording(None, batch), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says once that its check is a prototype
            before = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode("error")
            try:
                answer_of(self.module, batch)
            except RuntimeError as error:
                if "synchronizing" not in str(error):
                    raise
                return True
            finally:
                torch.cuda.set_sync_debug_mode(before)
        return False

    @property
    def runs_sdpa(self) -> bool:
        """Whether the model's context vectors are those of SDPA."""
        ours_on_gpu = self.choice is not None and self.choice.way in OURS and self.module.device.type != "cpu"
        return (self.mode == "kv" and not self.traced) or ours_on_gpu

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
        with recording(recorder, batch), ExitStack() as stack:
            if self.traced:
                stack.enter_context(AttentionTracer(batch.real.shape, partial(record_traced, mode=self.mode)))
            yield

    def _calibrate(self) -> Wiring:
        """The wiring from the first batch of random tokens without overflow: tensors of NaN or infinity cannot be matched."""
        for seed in range(DRAWS):
            batch = random_batch(self.module, seed)
            log, states = self._logged(batch)
            if not log.attentions and not self.traced:
                self._start_tracing()
                log, states = self._logged(batch)
            self._refuse_unseen(log, states)
            if is_sound(log, states, batch.real):
                wiring = find_wiring(log, states, batch.real)
                try_vectors(log.attentions[0].value, batch)
                self._choose_way(wiring, batch, log, states)
                return wiring
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
        self.traced, self.mode, self._attention = True, self._requested, "eager"
        self._stack.enter_context(attention_of(self.module, self._attention))

    def _logged(self, batch: Batch) -> tuple[Log, Sequence[Tensor]]:
        log = Log()
        with self.recording(log, batch), logged(self.module, log):
            outputs = outputs_of(self.module, batch, output_hidden_states=True)
        logits = getattr(outputs, "logits", None)
        self.classes = logits.shape[-1] if logits is not None and logits.ndim == 2 and logits.shape[-1] > 1 else None
        return log, getattr(outputs, "hidden_states", None) or ()


def _watch(module: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
    recorder = RECORDER.get()
    if isinstance(recorder, Recorder):
        with paused():
            recorder.called(module, given, returned)


def _agree(ours: Sequence[Tensor], theirs: Sequence[Tensor], real: Bool[Tensor, "b t"]) -> bool:
    """Whether two passes have the same hidden states at real tokens, up to rounding."""
    if len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        apart, size = (one - other)[real].abs().max(), other[real].abs().max()
        if not bool(apart <= min(4096 * torch.finfo(one.dtype).eps, 0.1) * size):
            return False
    return True


@contextmanager
def recording(recorder: Recorder | Log | None, batch: Batch) -> Iterator[None]:
    """Context, without gradients, in which the recorder, if any, receives the model's calls, and mask functions know if there is
    padding."""
    token, padding = RECORDER.set(recorder), PADDED.set(not bool(batch.on_host.real.all()))
    try:
        with torch.no_grad():
            yield
    finally:
        RECORDER.reset(token)
        PADDED.reset(padding)


def traces_of(module: PreTrainedModel, batch: Batch, mode: Mode = "full") -> list[Trace]:
    """The traces of all layers for one batch, all kept in memory: for a few texts, not for a corpus."""
    traces: list[Trace] = []
    with Capture(module, mode, whole=True) as capture:
        capture(batch, traces.append)
    return traces


def verify(module: PreTrainedModel, batch: Batch | None = None) -> dict[Mode, float]:
    """The largest difference in logits between a model under capture and the plain one, in each mode. Both should be 0.

    The plain model runs SDPA for a kv capture, and for a full one on a GPU, whose context is SDPA's; eager attention else, and if
    the model is off the attention interface. Without a batch, a padded one of random tokens is used.
    """
    batch = (random_batch(module) if batch is None else batch).to(module.device)
    differences: dict[Mode, float] = {}
    for mode in MODES:
        with Capture(module, mode) as capture:
            captured = capture(batch, lambda trace: None)
        with attention_of(module, "sdpa" if capture.runs_sdpa else "eager"), torch.no_grad():
            differences[mode] = float((captured - answer_of(module, batch)).abs().max())
    return differences
