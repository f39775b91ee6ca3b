"""Trace: what one batch left in one layer, put together while the model runs."""

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
"""What a trace holds vectors of."""
Attend = Callable[[Int[Tensor, " n"]], Float[Tensor, "n h t t"]]


@dataclass(frozen=True)
class Trace(Memo):
    """What one batch left in one layer. Layer 0 has the embeddings in `hidden` and nothing else.

    `input` is what the projections of queries, keys and values read; `output` is after W_O, before the residual;
    `hidden` is the layer's output as transformers counts it (on pre-norm models the last one is after the final
    norm), `before` that of the layer before, and `forward` what the feed-forward part adds. `added` says to which of `before`
    and `input` the output is added, and `norm` normalises that sum. Keys arrive after rotary positions, and with grouped
    queries there are fewer of them than queries. `earlier` is what was computed once for the layer before.
    In full mode only: `visible`, how many keys each query may see; `weights`, where they are few enough to be whole, or else
    `looks`, what was kept of them; and `attend`, which computes those of some examples again.
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

    def look(self, name: str) -> Tensor | None:
        """What one of LOOKS finds in the weights; None where there are none."""
        if name in self.reductions or self.weights is None:
            return self.reductions.get(name)
        weights = self.weights
        found: Tensor = self.memo(("look", name), lambda: REDUCTIONS[name].compute(AttentionChunk(weights, self.batch)))
        return found

    def maps(self, examples: Int[Tensor, " n"]) -> Float[Tensor, "n h t t"] | None:
        """The weights of some examples, whole."""
        if self.weights is not None:
            return self.weights[examples]
        return None if self.attend is None else self.attend(examples)

    @property
    def residual(self) -> Float[Tensor, "b t d_res"] | None:
        """What the attention's output is added to; None where that was not found."""
        found: Tensor | None = None if self.added is None else getattr(self, self.added)
        return found

    @property
    def goes_on(self) -> bool:
        """Whether what the projections read is what the layer before left."""
        before, now = self.before, self.input
        return before is not None and now is not None and before.data_ptr() == now.data_ptr() and before.shape == now.shape

    def norms(self, site: str) -> Float[Tensor, "b t h"]:
        """‖x‖ of every vector of a site by head, at least in single precision, computed once."""

        def compute() -> Tensor:
            x = self.vectors(site)
            assert x is not None
            # By token first: the heads of a token lie side by side, and this way round is twice as fast.
            return torch.linalg.vector_norm(at_least_single(x).transpose(1, 2), dim=-1)  # type: ignore[no-any-return]

        found: Tensor = self.memo(("norms", site, "head"), compute)
        return found

    def sound(self) -> Bool[Tensor, " b"]:
        """Which examples have a finite length in all of their vectors: no NaN, no infinity, nothing too large to be squared."""
        sites = [site for site in SITES if getattr(self, site) is not None and not (site == "input" and self.goes_on)]
        finite = torch.stack([self.norms(site).isfinite().all(-1) for site in sites])
        return (finite.all(0) | ~self.batch.real).all(-1)

    def vectors(self, site: str) -> Float[Tensor, "b h t e"] | None:
        """The vectors of a site by head; a site of whole vectors has one head."""
        found: Tensor | None = getattr(self, site)
        return found[:, None] if found is not None and found.ndim == 3 else found

    def whole(self, site: str) -> Float[Tensor, "b t d"] | None:
        """The vectors of a site, those of all heads put together."""
        found: Tensor | None = getattr(self, site)
        return found.transpose(1, 2).flatten(2) if found is not None and found.ndim == 4 else found


@dataclass(frozen=True)
class PooledOutput:
    """The vector of one layer that stands for each text, and what the model answered in the end.

    It is what the classifier reads, where there is one: that of the token that is classified from (or of [CLS], where that is
    not known), or the mean over tokens where the model pools so; or the one that was asked for. `there` says which examples
    have one. `predicted` is -1 for a model that does not
    classify. `maps` has the weights of the heads that were asked for.
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
    """The linear maps of one layer by head, from what its projections read: x W_Q, x W_K, x W_V, and W_O after that.

    None where a map could not be found, or is none (queries that are normalised). `value_bias` and `output_bias` are added.
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
    """What becomes of weights: `looks`, what is kept of them where they are made in pieces; `cuts`, along which axes these may
    be cut; `heads` of each layer, whose weights are kept until the model has answered."""

    reductions: Collection[str]
    cuts: frozenset[str]
    heads: Mapping[int, Sequence[int]]


class Recorder:
    """Puts the pieces of one forward pass together, layer by layer, and hands each layer over when it is complete."""

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
        """A watched module was called."""
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

    def _by_token(self, found: Tensor | None) -> Tensor | None:
        return None if found is None else found.reshape(*self.batch.real.shape, -1)

    def attended(self, attended: AttentionCall, **weighed: Any) -> None:
        """Attention was called; `weighed` is what a trace holds of its weights."""
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
            **weighed,
        )
        self._input = None

    def close(self) -> None:
        """Hand over what there is of the current layer."""
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
        found: dict[str, Any] = {
            site: pooled(x, self.batch, self.pooling, self._wiring.asked) for site, x in whole.items() if x is not None
        }
        return {**found, "maps": self._maps(trace)} if trace.layer in self.weighing.heads else found

    def _maps(self, trace: Trace) -> dict[int, Tensor] | None:
        """The weights of the heads that were asked for and are there."""
        maps = trace.maps(torch.arange(len(self.batch.real), device=self.batch.real.device))
        there = [] if maps is None else [head for head in self.weighing.heads[trace.layer] if head <= maps.shape[1]]
        return None if maps is None else {head: maps[:, head - 1].clone() for head in there}

    def refuse_overflow(self, model: str, dtype: torch.dtype) -> None:
        """Refuse a pass that left NaN or infinity in any layer: not all of it reaches the answer, which may read one token alone.

        Asked once a pass: asking for each layer would make a GPU wait.
        """
        self.close()
        sound = torch.stack(self._sound).all(0)
        if not bool(sound.all()):
            raise OverflowedError.of(model, self.batch.ids[int((~sound).nonzero()[0])], dtype)

    def answered(self, logits: Float[Tensor, "b c"] | None) -> None:
        """The pass is over: hand over the vector that stands for the text in each layer, and the answer."""
        self.close()
        if self.answer is None:
            return
        batch = self.batch
        there = batch.real.any(-1) if self.pooling else batch.cls >= 0
        # One logit is a number to be guessed, not a class.
        classifies = logits is not None and logits.shape[-1] > 1
        predicted = logits.argmax(-1) if logits is not None and classifies else torch.full_like(batch.cls, -1)
        classes = logits.shape[-1] if logits is not None and classifies else batch.classes
        for layer, vectors in self._pooled:
            self.answer(PooledOutput(layer, self._pooled[-1][0], batch, there, predicted, classes, **vectors))


def pooled(x: Float[Tensor, "b t d"], batch: Batch, how: Pooling | None, asked: bool = False) -> Float[Tensor, "b d"]:
    """One vector an example: at the token that is classified from, or the mean of the real tokens; [CLS]'s for None."""
    if how == "mean":
        return pool(x, batch.real, how)
    return x[torch.arange(len(x), device=x.device), read_at(batch, how, asked).clamp_min(0)]


def read_at(batch: Batch, how: Pooling | None, asked: bool = False) -> Int[Tensor, " b"]:
    """Where the token stands whose vector is that of the text; -1 for a mean, and where there is none.

    A model's own last token is the one at which it was found to read the class: padding tokens may end a text. The last one that
    was `asked` for is the last of all.
    """
    if how == "mean":
        return torch.full_like(batch.cls, -1)
    if how is None or (how == "last" and not asked and batch.reads):
        return batch.cls
    return first_place(batch.real) if how == "first" else last_place(batch.real)
