"""Wiring: which modules of a model carry a layer's input, its output projection and its output.

No module is looked up by name. One calibration pass logs every module call and attention call in order; then

- the layer's *input* is the input of the linear layer whose output became the values, or else the keys (same storage, or equal);
- the *projection* W_O is the first linear layer after the attention whose input equals the context;
- the layer's *output* is the last module call before the next attention that returned the layer's hidden state, or
  else the first that read it (OPT adds its positions outside any module);
- the *feed-forward part* ends in the last linear layer before that output whose result is added to an earlier input of the layer;
- the *residual* is the tensor added to W_O's output, in a sum that a later module of the layer reads (or the layer's output is
  that sum), and the *norm* is the first module that reads the sum and returns it normalised, whatever its class;
- the *pooling* follows from what a module after the last layer read: the last hidden state of the first token, of the last
  one, or the mean over tokens.

What cannot be traced (a gate before W_O, a fused kernel, a mixture of experts) is left out, and a measure that
needs it says so.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from conoscope.capture.calls import AttentionCall, Call, Event, Log, given_to, is_sum
from conoscope.capture.class_token import first_place, last_place
from conoscope.capture.normalization import Norm, Residual, find_residual
from conoscope.common.pooling import Vector
from conoscope.sums.numeric import at_least_single

Side = Literal["given", "returned"]
Pooling = Literal["first", "last", "mean"]


@dataclass(frozen=True)
class Wiring:
    """For each layer, the call that reads its input, applies W_O, ends its feed-forward part, and returns (or next reads)
    its output; its number of heads, its residual, its norm; and the pooling of the last layer.

    None if nothing was found. `outputs` begins with layer 0, the embeddings. `cuts`: the axes along which the attention can be
    computed in chunks. `beyond`: what it does beyond softmax(scale · q kᵀ + mask), "" for nothing.
    `asked`: whether the user requested the pooling, so that it may differ from the model's own.
    """

    inputs: tuple[Call | None, ...]
    projections: tuple[Call | None, ...]
    forwards: tuple[Call | None, ...]
    outputs: tuple[tuple[Call, Side] | None, ...]
    heads: tuple[int, ...]
    residuals: tuple[Residual | None, ...]
    norms: tuple[Norm | None, ...]
    pooling: Pooling | None
    cuts: frozenset[str] = frozenset()
    beyond: str = ""
    asked: bool = False

    def modules(self) -> set[nn.Module]:
        """All modules that need a forward hook."""
        outputs = (output and output[0] for output in self.outputs)
        return {call[0] for call in (*self.inputs, *self.projections, *self.forwards, *outputs) if call is not None}

    def with_pooling(self, vector: Vector | None) -> "Wiring":
        """The wiring with this pooling instead; None leaves it unchanged, `cls` is the classifying token."""
        return self if vector is None else replace(self, pooling=None if vector == "cls" else vector, asked=True)

    @cached_property
    def projected(self) -> "dict[Call, Projection]":
        """W_O of every layer that has one, by the call that applies it."""
        both = zip(self.projections, self.heads, strict=True)
        return {call: Projection.of(call[0], heads) for call, heads in both if call is not None}


@dataclass(frozen=True)
class Projection:
    """W_O of one layer, split by head, and its bias."""

    weight: Float[Tensor, "h e d"]
    bias: Float[Tensor, " d"] | None

    @classmethod
    def of(cls, module: nn.Module, heads: int) -> "Projection":
        """W_O from a Linear, or from GPT-2's Conv1D, which stores the transpose."""
        weight: Tensor = module.weight if isinstance(module, Conv1D) else module.weight.T  # type: ignore[assignment]
        return cls(weight.detach().unflatten(0, (heads, -1)), None if module.bias is None else module.bias.detach())  # type: ignore[operator]

    @cached_property
    def gram(self) -> Float[Tensor, "h e e"]:
        """W_O W_Oᵀ of each head: ‖v W_O‖² = v W_O W_Oᵀ vᵀ."""
        return self.single @ self.single.mT

    @cached_property
    def products(self) -> Float[Tensor, "he he"]:
        """W_O W_Oᵀ of every two heads: f_h · f_g = v_h W_h W_gᵀ v_gᵀ; multiplied in double precision."""
        whole = self.single.double().flatten(0, 1)
        return (whole @ whole.mT).to(self.single.dtype)

    @cached_property
    def single(self) -> Float[Tensor, "h e d"]:
        """W_O in at least single precision."""
        return at_least_single(self.weight)


def find_wiring(log: Log, hidden_states: Sequence[Tensor], real: Bool[Tensor, "b t"]) -> Wiring:
    """The wiring, found by matching the tensors of one logged pass over a batch with these real tokens."""
    segments, attentions = _by_rows(log.segments(), real), log.attentions
    projections = tuple(_first(after, _reads(attended.context)) for after, attended in zip(segments[1:], attentions, strict=True))
    outputs = tuple(_find_state(segment, state) for segment, state in zip(segments, hidden_states, strict=True))
    inputs = tuple(_find_input(before, attended) for before, attended in zip(segments, attentions, strict=False))
    added = [
        find_residual(segment, call, {"before": before, "input": given_to(log, reads)}, after)
        for segment, call, reads, before, after in zip(
            segments[1:], projections, inputs, hidden_states, hidden_states[1:], strict=False
        )
    ]
    return Wiring(
        inputs=inputs,
        projections=projections,
        heads=tuple(attended.context.shape[2] for attended in attentions),
        residuals=tuple(residual for residual, _ in added),
        norms=tuple(norm for _, norm in added),
        forwards=tuple(map(_find_forward, segments[1:], hidden_states, hidden_states[1:], projections, outputs[1:])),
        outputs=outputs,
        pooling=_find_pooling(segments[-1], hidden_states[-1], real),
        cuts=log.cuts,
        beyond=log.beyond,
    )


def is_sound(log: Log, hidden_states: Sequence[Tensor], real: Bool[Tensor, "b t"]) -> bool:
    """Whether attention calls and hidden states of a logged pass have neither NaN nor infinity at real tokens."""
    sides = [x.transpose(1, 2) for each in log.attentions for x in (each.query, each.key, each.value) if x is not None]
    by_token = [*hidden_states, *sides, *(each.context for each in log.attentions)]
    finite = (x.isfinite().flatten(2).all(-1) | ~real for x in by_token if x.shape[:2] == real.shape)
    return all(bool(each.all()) for each in finite)


def _by_rows(segments: Sequence[Sequence[Event]], real: Bool[Tensor, "b t"]) -> list[list[Event]]:
    """The calls without those whose input or output has tokens first and rows second (XLNet): a trace would misread it."""
    transposed = None if real.shape[0] == real.shape[1] else real.shape[::-1]

    def rows_first(event: Event) -> bool:
        return not any(x is not None and x.shape[:2] == transposed for x in (event.given, event.returned))

    return [list(filter(rows_first, segment)) for segment in segments]


def _find_input(segment: Sequence[Event], attended: AttentionCall) -> Call | None:
    """The linear layer that computed the values, or the keys if a bias is added to the values later (DeBERTa)."""
    calls = (_last(segment, _makes(x)) for x in (attended.value, attended.key) if x is not None)
    return next((call for call in calls if call is not None), None)


def _find_state(segment: Sequence[Event], state: Tensor) -> tuple[Call, Side] | None:
    if call := _last(segment, lambda event: event.returned is not None and _equal(event.returned, state)):
        return call, "returned"
    if call := _first(segment, lambda event: event.given is not None and _equal(event.given, state)):
        return call, "given"
    return None


def _find_forward(
    segment: Sequence[Event], before: Tensor, state: Tensor, projection: Call | None, output: tuple[Call, Side] | None
) -> Call | None:
    """The last linear layer whose result is added to the input of an earlier module of the layer; or to the layer's input and the
    attention output, if attention and feed-forward run in parallel (Phi)."""
    layer = _up_to(segment, output)
    both = _distinct([before, *(event.returned for event in layer if event.call == projection)], state)
    for number, event in reversed(list(enumerate(layer))):
        if event.call == projection:
            return None
        if _is_linear(event) and event.returned is not None and event.returned.numel() == state.numel():
            sums = _distinct([*(later.given for later in layer[number + 1 :]), state], state)
            # Inputs, not outputs: experts beside a shared expert return a tensor that is not a residual.
            read = [[tensor] for tensor in _distinct([earlier.given for earlier in layer[:number]], state)]
            candidates = [*read, both] if len(both) == 2 else read
            if any(is_sum(total, event.returned, *others) for total in sums for others in candidates):
                return event.call
    return None


def _up_to(segment: Sequence[Event], output: tuple[Call, Side] | None) -> list[Event]:
    """The calls up to the one that returned, or read, the layer's output; all of them if it was not found."""
    calls = [event.call for event in segment]
    return list(segment[: calls.index(output[0]) + 1] if output else segment)


def _distinct(tensors: Sequence[Tensor | None], like: Tensor) -> list[Tensor]:
    """The tensors with as many numbers as `like`, each once: modules pass the same tensor on."""
    return list(
        {tensor.data_ptr(): tensor for tensor in tensors if tensor is not None and tensor.numel() == like.numel()}.values()
    )


def _find_pooling(segment: Sequence[Event], state: Tensor, real: Bool[Tensor, "b t"]) -> Pooling | None:
    """The pooling whose result was read after the last layer; None if it is ambiguous, as in texts of one token."""
    first, last, mean = pool(state, real, "first"), pool(state, real, "last"), pool(state, real, "mean")
    rounding = min(64 * torch.finfo(state.dtype).eps, 0.02) * float(state.abs().max())
    for given in _read_since(segment, state):
        # A token's vector must be equal exactly, which separates it from the mean even if all tokens nearly agree.
        if torch.equal(given, first) or torch.equal(given, last):
            return None if torch.equal(first, last) else "first" if torch.equal(given, first) else "last"
        if given.shape == mean.shape and float((given - mean).abs().max()) <= rounding:
            return "mean"
    return None


def pool(x: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"], pooling: Pooling) -> Float[Tensor, "b d"]:
    """One vector per text: of its first real token, of its last, or the mean of all."""
    if pooling == "mean":
        weights = real[:, None].to(x.dtype)
        return (weights @ x)[:, 0] / weights.sum(-1)
    at = first_place(real) if pooling == "first" else last_place(real)
    return x[torch.arange(len(x), device=x.device), at]


def _read_since(segment: Sequence[Event], state: Tensor) -> Iterator[Tensor]:
    """The inputs of leaf modules after the last one that read the whole state, latest first: an earlier input may be only the
    query of an attention pooling. A module with children does what they do."""
    for event in reversed(segment):
        if event.given is not None and event.call is not None and not list(event.call[0].children()):
            if _equal(event.given, state):
                return
            yield event.given


def _first(events: Sequence[Event], matches: Callable[[Event], bool]) -> Call | None:
    return next((event.call for event in events if matches(event)), None)


def _last(events: Sequence[Event], matches: Callable[[Event], bool]) -> Call | None:
    return _first(events[::-1], matches)


def _is_linear(event: Event) -> bool:
    return event.call is not None and isinstance(event.call[0], (nn.Linear, Conv1D)) and event.given is not None


def _makes(value: Tensor) -> Callable[[Event], bool]:
    """Predicate: a linear layer whose output became the values: they are a view of it, or each head equals one of its heads."""
    heads = value.transpose(1, 2).unbind(2)

    def matches(event: Event) -> bool:
        if not _is_linear(event) or event.returned is None:
            return False
        same = event.returned.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
        return same or all(any(torch.equal(part, head) for part in _cut(event.returned, heads[0])) for head in heads)

    return matches


def _cut(whole: Tensor, like: Float[Tensor, "b t e"]) -> tuple[Tensor, ...]:
    """A tensor split into heads of this width; empty if its shape does not match."""
    rows, tokens, width = like.shape
    fits = whole.numel() % like.numel() == 0 and whole.shape[-1] % width == 0
    return whole.reshape(rows, tokens, -1, width).unbind(2) if fits else ()


def _reads(context: Tensor) -> Callable[[Event], bool]:
    flat = context.flatten(2)
    return lambda event: _is_linear(event) and event.given is not None and _equal(event.given, flat)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.numel() == other.numel() and one.shape[-1] == other.shape[-1] and torch.equal(one.reshape(other.shape), other)
