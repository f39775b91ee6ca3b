"""Spans: which module call computes a layer, or its attention, so that a pass need not compute it again.

Like the wiring, spans are found from tensors, on one pass over random tokens, whatever the modules are called. A call is a
layer's span if it returns the layer's hidden state and computes a part of that layer; it is an attention's span if it returns
the context, or the attention output. A hidden state is changed where it is seen first: all that reads it later reads the change.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from transformers import PreTrainedModel

from conoscope.capture.calls import Call, first_tensor
from conoscope.capture.wiring import Wiring

End = Literal["context", "output"]


@dataclass
class Span:
    """A module call: when it began and ended, the first tensors that it was given and returned, the calls of other modules within
    it, and whether what it returned can be returned again for several copies of a batch."""

    call: Call
    began: int
    given: Tensor | None
    ended: int = -1
    returned: Tensor | None = None
    repeatable: bool = False
    inner: Counter[nn.Module] = field(default_factory=Counter)


@dataclass(frozen=True)
class Seen:
    """Where a hidden state is seen first: the call that returns it, or that is given it."""

    call: Call
    given: bool


@dataclass(frozen=True)
class Spans:
    """For each layer, the span that computes it; the span of its attention, and what that returns; where its state is seen."""

    layers: Mapping[int, Span]
    attentions: Mapping[int, tuple[Span, End]]
    states: Mapping[int, Seen]


class SpanLog:
    """Log of every module call of one pass."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._open: list[Span] = []
        self._counts: Counter[nn.Module] = Counter()
        self._clock = 0

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Log that a call begins."""
        name = given_to(args, kwargs)
        given = None if name is None else args[name] if isinstance(name, int) else kwargs[name]
        span = Span((module, self._counts[module]), self._tick(), None if given is None else given.clone())
        for outer in self._open:
            outer.inner[module] += 1
        self._counts[module] += 1
        self._open.append(span)

    def end(self, module: nn.Module, args: tuple[Any, ...], returned: Any) -> None:
        """Log what the call returned."""
        span = self._open.pop()
        first = first_tensor(returned)
        span.ended, span.returned = self._tick(), None if first is None else first.clone()
        span.repeatable = first is returned or not any(isinstance(x, (tuple, list, dict)) for x in returned or ())
        self.spans.append(span)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


@contextmanager
def spanned(module: PreTrainedModel, log: SpanLog) -> Iterator[None]:
    """Context in which the log records every module call of the model."""
    handles = [part.register_forward_pre_hook(log.begin, with_kwargs=True) for part in module.modules()]
    handles += [part.register_forward_hook(log.end) for part in module.modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def given_to(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | str | None:
    """The place or the name of the first tensor of floats that a call is given."""
    named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    return next((name for name, x in named if isinstance(x, Tensor) and x.is_floating_point()), None)


def find_spans(log: SpanLog, wiring: Wiring, states: Sequence[Tensor], real: Bool[Tensor, "b t"], embeddings: nn.Module) -> Spans:
    """The spans of one logged pass with these hidden states."""
    rows = {len(states[0]), states[0].shape[0] * states[0].shape[1]}
    spans = [span for span in log.spans if span.repeatable and span.returned is not None and span.returned.shape[0] in rows]
    by_call = {span.call: span for span in log.spans}
    layers, attentions = {}, {}
    for layer, state in enumerate(states):
        inside = {(embeddings, 0)} if layer == 0 else {wiring.projections[layer - 1], wiring.inputs[layer - 1]}
        parts = [by_call[call] for call in inside if call in by_call]
        if layer < len(states) - 1 and (span := _first(spans, parts, state)) is not None:
            layers[layer] = span
        if layer and (found := _attention(spans, by_call, wiring, layer)) is not None:
            attentions[layer] = found
    seen = {layer: _seen(log.spans, state, real) for layer, state in enumerate(states) if wiring.outputs[layer] is not None}
    return Spans(layers, attentions, {layer: where for layer, where in seen.items() if where is not None})


def _attention(spans: Sequence[Span], by_call: Mapping[Call, Span], wiring: Wiring, layer: int) -> tuple[Span, End] | None:
    """The span from what reads the layer's input to the context, or else to the attention output."""
    reads, projection = wiring.inputs[layer - 1], wiring.projections[layer - 1]
    if reads is None or projection is None:
        return None
    first, last = by_call[reads], by_call[projection]
    if last.given is not None and (span := _first([x for x in spans if x.ended < last.began], [first], last.given)):
        return span, "context"
    span = None if last.returned is None else _first(spans, [first, last], last.returned)
    return None if span is None else (span, "output")


def _first(spans: Sequence[Span], parts: Sequence[Span], tensor: Tensor) -> Span | None:
    """The first span to end that has one of the parts within it, or all if it is to have several, and returns this tensor."""
    for span in spans:
        holds = [span.began <= part.began and part.ended <= span.ended for part in parts]
        if holds and all(holds) and _same(span.returned, tensor):
            return span
    return None


def _seen(spans: Sequence[Span], state: Tensor, real: Bool[Tensor, "b t"]) -> Seen | None:
    """Where a state is seen first, at real tokens: a model may set those of padding to 0 later, outside its modules (XLM)."""
    moments = [(span.ended, Seen(span.call, False)) for span in spans if _same(span.returned, state, real)]
    moments += [(span.began, Seen(span.call, True)) for span in spans if _same(span.given, state, real)]
    return min(moments, key=lambda moment: moment[0])[1] if moments else None


def _same(one: Tensor | None, other: Tensor, real: Bool[Tensor, "b t"] | None = None) -> bool:
    if one is None or one.numel() != other.numel() or one.shape[-1] != other.shape[-1]:
        return False
    if one.ndim > 2 and one.shape[:2] != other.shape[:2]:  # tokens first, rows second (XLNet)
        return False
    one = one.reshape(other.shape)
    return torch.equal(one, other) if real is None else torch.equal(one[real], other[real])
