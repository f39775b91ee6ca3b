"""Pending: values of sampled items on their way from a GPU to the CPU's memory, and what is computed of them there."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.measures.needs import Need
from conoscope.sums.drawing import Chosen
from conoscope.sums.stacked import Slots

LARGE = 2**18
"""Values of more bytes are moved out of page-locked memory beside the GPU's work."""


@dataclass
class Pending:
    """The values of the chosen items of one batch, for some needs and layers."""

    slots: Slots
    chosen: Chosen
    batch: Batch
    values: Tensor
    arrived: Any = None
    later: "Future[Tensor] | None" = None

    @classmethod
    def of(cls, slots: Slots, chosen: Chosen, batch: Batch, values: Tensor) -> "Pending":
        """Values that a quantity returned; from a GPU they are copied in the background."""
        if values.device.type == "cpu":
            return cls(slots, chosen, batch, values)
        pending = cls(slots, chosen, batch, values.to("cpu", non_blocking=True), torch.cuda.Event())
        pending.arrived.record()
        if pending.finish is not None or values.nbytes > LARGE:
            pending.later = _worker().submit(pending._finished)
        return pending

    def is_there(self) -> bool:
        """Whether the values are ready; does not wait."""
        return self.later.done() if self.later is not None else self.arrived is None or self.arrived.query()

    def finished(self) -> Tensor:
        """The values, finished; waits for them."""
        return self.later.result() if self.later is not None else self._finished()

    def _finished(self) -> Tensor:
        values = self.values
        if self.arrived is not None:
            self.arrived.synchronize()
            # They arrived in page-locked memory, which is slow to allocate: it is free for the next batch at once.
            values = self.values = values.clone()
        return values if self.finish is None else self.finish(values, self.batch, self.chosen)

    @property
    def finish(self) -> Callable[[Tensor, Batch, Chosen], Tensor] | None:
        """What is computed of the values in the CPU's memory."""
        need: Need = self.slots[0][0]
        return need.described.finish


@cache
def _worker() -> ThreadPoolExecutor:
    """One thread that finishes values beside the GPU's work."""
    return ThreadPoolExecutor(1, thread_name_prefix="conoscope")
