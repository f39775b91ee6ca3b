"""Program: a captured pass over batches of one layout, and how its results reach the tally."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.sending import Layout
from conoscope.measures.collecting import AddResult
from conoscope.measures.needs import Need
from conoscope.measures.places import Places
from conoscope.measures.tally import Tally
from conoscope.measuring.graphs import Graph
from conoscope.sums.stacked import Slots


class PassResult(NamedTuple):
    """The result of a forward pass, on the model's device: the examples whose vectors are all finite, and the predicted classes,
    None if the model does not classify."""

    finite: Bool[Tensor, " b"]
    predicted: Int[Tensor, " b"] | None


Body = Callable[[Batch, Places, AddResult], PassResult]


@dataclass
class Program:
    """A captured pass over batches of one layout.

    `packed`: where a batch must lie on the GPU; `result` and `found`: what a pass leaves there, valid until another pass runs.
    """

    layout: Layout
    packed: UInt8[Tensor, " bytes"]
    graph: Graph
    tally: Tally
    result: PassResult | None = None
    found: list[tuple[Slots, Any]] = field(default_factory=list)
    last: int = 0
    """The number of the batch that it ran on last."""

    def add_result(self, slots: Slots, found: Any, batch: Batch) -> None:
        """While it is captured: add large arrays to the sums, as part of the graph, and keep the others for `run`."""
        need: Need = slots[0][0]
        if need.described.sample is not None or self.tally.buffers(slots, found):
            self.found.append((slots, found))
        else:
            self.tally.add_at_once(slots, found)

    def run(self, packed: UInt8[Tensor, " bytes"], host: Batch) -> PassResult:
        """Run it on a batch, given in the CPU's memory and packed there."""
        self.packed.copy_(packed, non_blocking=True)
        self.graph.replay()
        copies: dict[int, Any] = {}
        with torch.inference_mode():
            for slots, found in self.found:
                if isinstance(found, Tensor):
                    # A GPU copies sampled values to the CPU before the next pass.
                    self.tally.add_result(slots, found.clone() if found.device.type == "cpu" else found, host)
                else:
                    self.tally.add_result(slots, tuple(_copied(array, copies) for array in found), host)
        assert self.result is not None
        finite, predicted = self.result
        return PassResult(finite.clone(), None if predicted is None else predicted.clone())


def _copied(array: Any, copies: dict[int, Any]) -> Any:
    """A copy of a tensor; the same one if several needs share it."""
    if not isinstance(array, Tensor):
        return array
    if id(array) not in copies:
        copies[id(array)] = array.clone()
    return copies[id(array)]
