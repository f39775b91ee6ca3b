"""Recording: the calls of one forward pass, gathered into one Trace per layer, and into the pooled output of each."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from conoscope.capture.batch import Batch
from conoscope.capture.calls import AttentionCall, Call, first_tensor
from conoscope.capture.class_token import first_place, last_place
from conoscope.capture.site_sums import overflows
from conoscope.capture.trace import PooledOutput, Trace
from conoscope.capture.traced_attention import paused
from conoscope.capture.wiring import Pooling, Wiring, pool

Receive = Callable[[Trace], None]
ReceiveAnswer = Callable[[PooledOutput], None]
POOLED = ("hidden", "key", "value")


@dataclass(frozen=True)
class Weighing:
    """How attention weights are handled: `reductions`, computed if the weights are not kept; `cuts`, the axes along which a
    model's own attention may be split into chunks; `heads`, those of each layer whose weights are kept until the end of the pass;
    `fused`, whether kernels reduce the weights without writing them to memory; `masks`, by which masks the vectors of each site
    are summed."""

    reductions: Collection[str]
    cuts: frozenset[str]
    heads: Mapping[int, Sequence[int]]
    fused: bool = False
    masks: Mapping[str, Collection[str]] = field(default_factory=dict)


class Recorder:
    """Collects the tensors of one forward pass, and passes each layer's Trace to `receive` when it is complete."""

    def __init__(
        self,
        wiring: Wiring,
        batch: Batch,
        receive: tuple[Receive, ReceiveAnswer | None],
        weighing: Weighing,
    ) -> None:
        (self.receive, self.answer), self.batch, self.layer, self.weighing = receive, batch, 0, weighing
        self.pooling = wiring.pooling
        overflows(batch).zero_()
        self._wiring = wiring
        self._before: Tensor | None = None
        self._pooled: list[tuple[int, dict[str, Any]]] = []
        self._largest: list[Float[Tensor, "b t"]] = []
        self._trace: Trace | None = Trace(0, batch, masks=weighing.masks)
        self._input: Tensor | None = None
        self._counts: Counter[nn.Module] = Counter()
        self._inputs, self._projections, self._forwards = map(set, (wiring.inputs, wiring.projections, wiring.forwards))
        self._outputs = dict(filter(None, wiring.outputs))

    def called(self, module: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        """Record a call of a hooked module."""
        call: Call = (module, self._counts[module])
        self._counts[module] += 1
        sides = {"given": first_tensor(given), "returned": first_tensor(returned)}
        if call in self._inputs:
            self._input = self._by_token(sides["given"])
        if call in self._projections and self._trace is not None and self._trace.context is not None:
            projection = self._wiring.projected[call]
            self._trace = replace(self._trace, output=self._by_token(sides["returned"]), projection=projection)
        if call in self._forwards and self._trace is not None:
            self._trace = replace(self._trace, forward=self._by_token(sides["returned"]))
        if call in self._outputs and self._trace is not None:
            self._trace = replace(self._trace, hidden=self._by_token(sides[self._outputs[call]]))
            self.close()

    def _by_token(self, x: Tensor | None) -> Tensor | None:
        return None if x is None else x.reshape(*self.batch.real.shape, -1)

    def attended(self, attended: AttentionCall, **weights: Any) -> None:
        """Record an attention call; `weights` are the trace's fields about its weights."""
        self.close()
        self.layer += 1
        self._trace = Trace(
            self.layer,
            self.batch,
            input=self._input,
            query=attended.query,
            key=attended.key,
            value=attended.value,
            context=attended.context.transpose(1, 2),
            before=self._before,
            added=self._wiring.residuals[self.layer - 1],
            norm=self._wiring.norms[self.layer - 1],
            masks=self.weighing.masks,
            **weights,
        )
        self._input = None

    def close(self) -> None:
        """Pass the current layer's trace to `receive`, if there is one."""
        trace, self._trace = self._trace, None
        if trace is None:
            return
        self._before = trace.hidden
        if trace.hidden is not None or trace.value is not None:
            if (largest := trace.largest()) is not None:
                self._largest.append(largest)
            self.receive(trace)
            if self.answer is not None:
                self._pooled.append((trace.layer, self._pool(trace)))

    def _pool(self, trace: Trace) -> dict[str, Any]:
        whole = {site: trace.whole(site) for site in POOLED}
        vectors: dict[str, Any] = {
            site: pooled(x, self.batch, self.pooling, self._wiring.asked) for site, x in whole.items() if x is not None
        }
        return {**vectors, "maps": self._maps(trace)} if trace.layer in self.weighing.heads else vectors

    def _maps(self, trace: Trace) -> dict[int, Tensor] | None:
        """The attention maps of the requested heads that exist."""
        maps = trace.maps(torch.arange(len(self.batch.real), device=self.batch.real.device))
        heads = [] if maps is None else [head for head in self.weighing.heads[trace.layer] if head <= maps.shape[1]]
        return None if maps is None else {head: maps[:, head - 1].clone() for head in heads}

    def sound(self) -> Bool[Tensor, " b"]:
        """Mask of the examples whose vectors all have a finite norm: no NaN, no infinity, nothing too large to be squared.

        The logits alone would not show it: they may read only one token.
        """
        self.close()
        sound = overflows(self.batch) == 0
        return sound & (torch.stack(self._largest).amax(0).isfinite() | ~self.batch.real).all(-1) if self._largest else sound

    def answered(self, result: Float[Tensor, "..."]) -> None:
        """End the pass: send the PooledOutput of each layer to `answer`, with the predictions if the result is logits."""
        self.close()
        if self.answer is None:
            return
        batch = self.batch
        there = batch.real.any(-1) if self.pooling else batch.cls >= 0
        # A single logit is a regression, not a class.
        classifies = result.ndim == 2 and result.shape[-1] > 1
        predicted = result.argmax(-1) if classifies else torch.full_like(batch.cls, -1)
        classes = result.shape[-1] if classifies else batch.classes
        with paused():
            for layer, vectors in self._pooled:
                self.answer(PooledOutput(layer, self._pooled[-1][0], batch, there, predicted, classes, **vectors))


def pooled(x: Float[Tensor, "b t d"], batch: Batch, pooling: Pooling | None, asked: bool = False) -> Float[Tensor, "b d"]:
    """The pooled vector of each example: that of one token, or the mean of the real tokens; the classifying token's for None."""
    if pooling == "mean":
        return pool(x, batch.real, pooling)
    at = batch.memo(("pooled", pooling, asked), lambda: read_at(batch, pooling, asked).clamp_min(0))
    return x[batch.numbers, at]


def read_at(batch: Batch, pooling: Pooling | None, asked: bool = False) -> Int[Tensor, " b"]:
    """The position of the token whose vector represents the text; -1 for a mean, and if there is none.

    For a model's own pooling "last", this is the token at which it was found to read the class: padding tokens may end a text.
    If the user `asked` for "last", it is the last real token.
    """
    if pooling == "mean":
        return torch.full_like(batch.cls, -1)
    if pooling is None or (pooling == "last" and not asked and batch.reads):
        return batch.cls
    return first_place(batch.real) if pooling == "first" else last_place(batch.real)
