"""Trace: what one batch left in one layer, put together while the model runs."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from conoscope.batches import Batch
from conoscope.wiring import Attended, Call, Projection, Wiring, first_tensor


@dataclass(frozen=True)
class Trace:
    """What one batch left in one layer. Layer 0 has the embeddings in `hidden` and nothing else.

    `input` is what the projections of queries, keys and values read; `output` is after W_O, before the residual;
    `hidden` is the layer's output as transformers counts it (on pre-norm models the last one is after the final
    norm). Keys arrive after rotary positions, and with grouped queries there are fewer of them than queries.
    `weights` and `visible` (how many keys each query may see) are there in full mode only.
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
    context: Float[Tensor, "b h t e_v"] | None = None
    output: Float[Tensor, "b t d_out"] | None = None
    projection: Projection | None = None
    _found: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What `compute` answers, computed for this trace only once."""
        if key not in self._found:
            self._found[key] = compute()
        return self._found[key]

    def vectors(self, site: str) -> Float[Tensor, "b h t e"] | None:
        """The vectors of a site by head; a site of whole vectors has one head."""
        found: Tensor | None = getattr(self, site)
        return found[:, None] if found is not None and found.ndim == 3 else found


Receive = Callable[[Trace], None]


class Recorder:
    """Puts the pieces of one forward pass together, layer by layer, and hands each layer over when it is complete."""

    def __init__(self, wiring: Wiring, batch: Batch, receive: Receive) -> None:
        self.batch, self.receive, self.layer = batch, receive, 0
        self._trace: Trace | None = Trace(0, batch)
        self._input: Tensor | None = None
        self._counts: Counter[nn.Module] = Counter()
        self._inputs, self._projections = set(wiring.inputs), set(wiring.projections)
        self._outputs = dict(filter(None, wiring.outputs))

    def called(self, module: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        """A watched module was called."""
        call: Call = (module, self._counts[module])
        self._counts[module] += 1
        sides = {"given": first_tensor(given), "returned": first_tensor(returned)}
        if call in self._inputs:
            self._input = self._by_token(sides["given"])
        if call in self._projections and self._trace is not None and self._trace.context is not None:
            projection = Projection.of(module, self._trace.context.shape[1])
            self._trace = replace(self._trace, output=self._by_token(sides["returned"]), projection=projection)
        if call in self._outputs and self._trace is not None:
            self._trace = replace(self._trace, hidden=self._by_token(sides[self._outputs[call]]))
            self.close()

    def _by_token(self, found: Tensor | None) -> Tensor | None:
        return None if found is None else found.reshape(*self.batch.real.shape, -1)

    def attended(self, attended: Attended, weights: Tensor | None, visible: Tensor | None) -> None:
        """Attention was called."""
        self.close()
        self.layer += 1
        self._trace = Trace(
            self.layer,
            self.batch,
            input=self._input,
            query=attended.query,
            key=attended.key,
            value=attended.value,
            weights=weights,
            visible=visible,
            context=attended.context.transpose(1, 2),
        )
        self._input = None

    def close(self) -> None:
        """Hand over what there is of the current layer."""
        trace, self._trace = self._trace, None
        if trace is not None and (trace.hidden is not None or trace.query is not None):
            self.receive(trace)
