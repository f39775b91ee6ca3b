"""Trace: the tensors of one layer for one batch, recorded while the model runs."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from conoscope.capture.batch import Batch, Memo
from conoscope.capture.calls import AttentionCall, Call, first_tensor
from conoscope.capture.class_token import first_place, last_place
from conoscope.capture.normalization import Norm, Residual
from conoscope.capture.reductions import REDUCTIONS, AttentionChunk
from conoscope.capture.wiring import Pooling, Projection, Wiring, pool
from conoscope.common.errors import OverflowedError
from conoscope.sums.numeric import at_least_single

SITES = ("hidden", "input", "query", "key", "value", "context", "output", "forward")
"""The sites of which a trace holds vectors."""
Attend = Callable[[Int[Tensor, " n"]], Float[Tensor, "n h t t"]]


@dataclass(frozen=True)
class Trace(Memo):
    """The tensors of one layer for one batch. Layer 0 has the embeddings in `hidden` and nothing else.

    `input` is the input of the projections to queries, keys and values; `output` is after W_O, before the residual;
    `hidden` is the layer's output as transformers counts it (in pre-norm models the last one is after the final norm), `before`
    that of the layer before, and `forward` what the feed-forward part adds. `added` names the tensor, `before` or `input`, to
    which the output is added, and `norm` normalises that sum. Keys are after rotary positions; with grouped queries there are
    fewer keys than queries. `earlier` is the cache of the layer before.
    In full mode only: `visible`, how many keys each query may see; `weights`, if they are small enough to keep, or else
    `reductions`, computed from their chunks; and `attend`, which recomputes the weights of some examples.
    """

    layer: int
    batch: Batch
    hidden: Float[Tensor, "b t d"] | None = None
    input: Float[Tensor, "b t d_in"] | None = None
    query: Float[Tensor, "b h t e"] | None = None
    key: Float[Tensor, "b g t e"] | None = None
    value: Float[Tensor, "b g t e_v"] | None = None
    weights: Float[Tensor, "b h t t"] | None = None
    visible: Int[Tensor, "b #t"] | None = None
    reductions: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    attend: Attend | None = None
    context: Float[Tensor, "b h t e_v"] | None = None
    output: Float[Tensor, "b t d_out"] | None = None
    before: Float[Tensor, "b t d_before"] | None = None
    forward: Float[Tensor, "b t d"] | None = None
    projection: Projection | None = None
    added: Residual | None = None
    norm: Norm | None = None
    earlier: Mapping[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def reduction(self, name: str) -> Tensor | None:
        """One of REDUCTIONS of the weights; None if there are no weights."""
        if name in self.reductions or self.weights is None:
            return self.reductions.get(name)
        weights = self.weights
        reduced: Tensor = self.memo(("reduction", name), lambda: REDUCTIONS[name].compute(AttentionChunk(weights, self.batch)))
        return reduced

    def maps(self, examples: Int[Tensor, " n"]) -> Float[Tensor, "n h t t"] | None:
        """The attention maps of some examples, all queries; None if there are no weights."""
        if self.weights is not None:
            return self.weights[examples]
        return None if self.attend is None else self.attend(examples)

    @property
    def residual(self) -> Float[Tensor, "b t d_res"] | None:
        """The tensor to which the attention output is added; None if it was not found."""
        residual: Tensor | None = None if self.added is None else getattr(self, self.added)
        return residual

    @property
    def goes_on(self) -> bool:
        """Whether the projections read the output of the layer before itself (the same memory)."""
        before, now = self.before, self.input
        return before is not None and now is not None and before.data_ptr() == now.data_ptr() and before.shape == now.shape

    def norms(self, site: str) -> Float[Tensor, "b t h"]:
        """‖x‖ of every vector of a site by head, in at least single precision; cached."""

        def compute() -> Tensor:
            x = self.vectors(site)
            assert x is not None
            # By token first: the heads of a token are contiguous, so this order is twice as fast.
            return torch.linalg.vector_norm(at_least_single(x).transpose(1, 2), dim=-1)  # type: ignore[no-any-return]

        norms: Tensor = self.memo(("norms", site, "head"), compute)
        return norms

    def sound(self) -> Bool[Tensor, " b"]:
        """Mask of the examples whose vectors all have a finite norm: no NaN, no infinity, nothing too large to be squared."""
        sites = [site for site in SITES if getattr(self, site) is not None and not (site == "input" and self.goes_on)]
        finite = torch.stack([self.norms(site).isfinite().all(-1) for site in sites])
        return (finite.all(0) | ~self.batch.real).all(-1)

    def vectors(self, site: str) -> Float[Tensor, "b h t e"] | None:
        """The vectors of a site by head; a site without heads counts as one head."""
        x: Tensor | None = getattr(self, site)
        return x[:, None] if x is not None and x.ndim == 3 else x

    def whole(self, site: str) -> Float[Tensor, "b t d"] | None:
        """The vectors of a site, the heads concatenated."""
        x: Tensor | None = getattr(self, site)
        return x.transpose(1, 2).flatten(2) if x is not None and x.ndim == 4 else x


@dataclass(frozen=True)
class PooledOutput:
    """The pooled output of one layer, one vector per text, and the model's prediction.

    It is what the classifier reads, if there is one: the vector of the classifying token (of [CLS], if that is unknown), or the
    mean over tokens if the model pools so; or the requested pooling. `there` is a mask of the examples that have one. `predicted`
    is -1 for a model that does not classify. `maps` has the attention maps of the requested heads.
    """

    layer: int
    layers: int
    batch: Batch
    there: Bool[Tensor, " b"]
    predicted: Int[Tensor, " b"]
    classes: int
    hidden: Float[Tensor, "b d"] | None = None
    key: Float[Tensor, "b d_key"] | None = None
    value: Float[Tensor, "b d_value"] | None = None
    maps: Mapping[int, Float[Tensor, "b t t"]] | None = None


@dataclass(frozen=True)
class HeadWeights:
    """The weight matrices of one layer by head: x W_Q, x W_K, x W_V for the input x of the projections, and W_O after that.

    None if a matrix was not found, or the function is not linear (queries that are normalised). `value_bias` and `output_bias`
    are added.
    """

    layer: int
    query: Float[Tensor, "h d e"] | None
    key: Float[Tensor, "g d e"] | None
    value: Float[Tensor, "g d e_v"] | None
    output: Float[Tensor, "h e_v d_out"] | None
    value_bias: Float[Tensor, "g e_v"] | None = None
    output_bias: Float[Tensor, " d_out"] | None = None


Receive = Callable[[Trace], None]
ReceiveAnswer = Callable[[PooledOutput], None]
POOLED = ("hidden", "key", "value")


@dataclass(frozen=True)
class Weighing:
    """How attention weights are handled: `reductions`, computed if the weights come in chunks; `cuts`, the axes that may be split
    into chunks; `heads`, those of each layer whose weights are kept until the end of the pass."""

    reductions: Collection[str]
    cuts: frozenset[str]
    heads: Mapping[int, Sequence[int]]


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
        self._wiring = wiring
        self._before: Tensor | None = None
        self._earlier: Mapping[Hashable, Any] = {}
        self._pooled: list[tuple[int, dict[str, Any]]] = []
        self._sound: list[Bool[Tensor, " b"]] = []
        self._trace: Trace | None = Trace(0, batch)
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
            earlier=self._earlier,
            **weights,
        )
        self._input = None

    def close(self) -> None:
        """Pass the current layer's trace to `receive`, if there is one."""
        trace, self._trace = self._trace, None
        if trace is None:
            return
        self._before, self._earlier = trace.hidden, trace.cache
        if trace.hidden is not None or trace.value is not None:
            self._sound.append(trace.sound())
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

    def refuse_overflow(self, model: str, dtype: torch.dtype) -> None:
        """OverflowedError if any layer has NaN or infinity: the logits may read only one token and not show it.

        Checked once per pass: a check per layer would synchronise the GPU each time.
        """
        self.close()
        sound = torch.stack(self._sound).all(0)
        if not bool(sound.all()):
            raise OverflowedError.of(model, self.batch.ids[int((~sound).nonzero()[0])], dtype)

    def answered(self, logits: Float[Tensor, "b c"] | None) -> None:
        """End the pass: send the PooledOutput of each layer to `answer`, with the predictions."""
        self.close()
        if self.answer is None:
            return
        batch = self.batch
        there = batch.real.any(-1) if self.pooling else batch.cls >= 0
        # A single logit is a regression, not a class.
        classifies = logits is not None and logits.shape[-1] > 1
        predicted = logits.argmax(-1) if logits is not None and classifies else torch.full_like(batch.cls, -1)
        classes = logits.shape[-1] if logits is not None and classifies else batch.classes
        for layer, vectors in self._pooled:
            self.answer(PooledOutput(layer, self._pooled[-1][0], batch, there, predicted, classes, **vectors))


def pooled(x: Float[Tensor, "b t d"], batch: Batch, pooling: Pooling | None, asked: bool = False) -> Float[Tensor, "b d"]:
    """The pooled vector of each example: that of one token, or the mean of the real tokens; the classifying token's for None."""
    if pooling == "mean":
        return pool(x, batch.real, pooling)
    return x[torch.arange(len(x), device=x.device), read_at(batch, pooling, asked).clamp_min(0)]


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
