"""Runner: passes the batches of a corpus through a model under capture, into a tally.

The CPU never waits for a GPU within a batch. What the CPU needs of a batch (whether it overflowed, what was predicted, sampled
vectors) is copied in the background and read while the next batch runs.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from conoscope.capture.backends import Mode
from conoscope.capture.batch import Batch
from conoscope.capture.forward import within_memory
from conoscope.capture.loading import LoadedModel
from conoscope.capture.memory import return_memory
from conoscope.capture.recorder import Capture
from conoscope.capture.recording import ReceiveAnswer
from conoscope.capture.trace import PooledOutput
from conoscope.common.errors import OverflowedError
from conoscope.common.pooling import Vector
from conoscope.measures.collecting import AddResult, Collector
from conoscope.measures.places import Places
from conoscope.measures.tally import Tally
from conoscope.measuring.postponed import Postponed
from conoscope.measuring.program import PassResult
from conoscope.measuring.replay import Replays


@dataclass(frozen=True)
class Outcome:
    """What the CPU needs of a batch: the examples whose vectors are all finite, and the predicted classes, None if the model does
    not classify."""

    batch: Batch
    finite: Bool[Tensor, " b"]
    predicted: Int[Tensor, " b"] | None
    classes: int
    arrived: Any

    @classmethod
    def of(cls, host: Batch, result: PassResult, classes: int) -> "Outcome":
        """The outcome of a pass; from a GPU it is copied in the background."""
        finite, predicted = (None if x is None else x.to("cpu", non_blocking=True) for x in result)
        assert finite is not None
        arrived = None
        if result.finite.device.type == "cuda":
            arrived = torch.cuda.Event()
            arrived.record()
        return cls(host, finite, predicted, classes, arrived)

    def wait(self) -> None:
        """Wait until it has arrived."""
        if self.arrived is not None:
            self.arrived.synchronize()


class Runner:
    """Context manager: `runner(batches)` runs batches that were planned together, and yields the outcome of each."""

    def __init__(self, loaded: LoadedModel, tally: Tally, vector: Vector | None = None) -> None:
        self.loaded, self.tally = loaded, tally
        mode: Mode = "full" if tally.reductions else "kv"
        self.capture = Capture(loaded.module, mode, tally.reductions, heads=tally.heads, vector=vector, masks=tally.masks)
        self._pools = tally.wants(PooledOutput)
        width = getattr(loaded.module.config.get_text_config(), "hidden_size", 0)
        self._bytes = width * loaded.module.dtype.itemsize
        self._stack = ExitStack()
        self._before: Outcome | None = None
        on_gpu = loaded.device.type == "cuda"
        self._postponed = Postponed(tally) if on_gpu else None
        self._replays: Replays | None = None
        if on_gpu and not tally.wants_subjects:
            self._replays = Replays(tally, loaded.module, loaded.device, self._collected)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.capture)
            self.wiring = self.capture.find_wiring()
            if self._replays is not None and self.capture.waits():
                self._replays.reason = "batches are not recorded and replayed: the model waits for the GPU"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @property
    def described(self) -> str:
        """The device, the precision, and how attention weights are computed."""
        device, dtype = self.loaded.device, str(self.loaded.module.dtype).removeprefix("torch.")
        name = f"{device}, {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)
        choice = self.capture.choice
        return f"on {name} in {dtype}: {'no attention weights are needed' if choice is None else choice}"

    @property
    def unrecorded(self) -> str | None:
        """Why no batch is recorded and replayed, where batches could be; None if there is no such reason."""
        return None if self._replays is None else self._replays.reason

    @property
    def replayed(self) -> str | None:
        """How many batches were replayed; None if this is no GPU, or a measure needs layers one by one."""
        return None if self._replays is None else f"{self._replays.replayed} of {self._replays.batches} batches were replayed"

    def __call__(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Run these batches; OverflowedError if one overflows. On a GPU an outcome comes one batch late, while the next one runs:
        that of the last batch with the next batches, or from `rest`."""
        coming = iter(batches)
        batch = next(coming, None)
        while batch is not None:
            before, self._before = self._before, self._run(batch)
            batch = next(coming, None)
            if batch is not None and self._replays is not None:
                self.plan([batch])
                self._replays.prepare(batch)
            if before is not None:
                yield self._checked(before)
            if self._before.arrived is None:
                yield from self.rest()

    def rest(self) -> Iterator[Outcome]:
        """The outcome of the last batch, if it has not come yet."""
        before, self._before = self._before, None
        if before is not None:
            yield self._checked(before)

    def plan(self, batches: list[Batch]) -> None:
        """Decide what the samples take from batches that run next; once for each."""
        self.tally.plan(batches, self._there)
        if self._postponed is not None:
            self._postponed.postpone(batches)

    def complete(self) -> None:
        """Run the postponed examples. Afterwards the tally holds all results of the batches so far."""
        outcomes = []
        for part in self._postponed.parts() if self._postponed is not None else ():
            moved = part.batch.to(self.loaded.device)
            places = Places(moved, self.tally.stacked, part.chosen)
            result = self._pass(moved, Collector(self.tally, moved, places, only=part.chosen), None)
            outcomes.append(Outcome.of(part.batch, result, 0))
        for outcome in outcomes:
            self._checked(outcome)

    def _there(self, batch: Batch) -> Bool[Tensor, " b"]:
        """The examples that have a pooled vector, and no label beyond the model's classes."""
        there = batch.real.any(-1) if self.wiring.pooling else batch.cls >= 0
        return there if self.capture.classes is None else there & (batch.label < self.capture.classes)

    def _run(self, batch: Batch) -> Outcome:
        host = batch.on_host
        self.plan([host])
        if self._replays is None:
            moved = batch.to(self.loaded.device)
            result = self._collected(moved, Places(moved, self.tally.stacked, self.tally.planned(host)), self.tally.add_result)
        else:
            result = self._replays(batch)
        self.tally.take_counts(host)
        return Outcome.of(host, result, self.capture.classes or 0)

    def _collected(self, moved: Batch, places: Places, add_result: AddResult) -> PassResult:
        """Run a batch that lies on the model's device."""
        collector = Collector(self.tally, moved, places, add_result)
        return self._pass(moved, collector, collector.answered if self._pools else None)

    def _pass(self, moved: Batch, collector: Collector, answered: ReceiveAnswer | None) -> PassResult:
        with torch.no_grad(), within_memory(moved):
            passed = self.capture.run(moved, collector.receive, answered)
            collector.end()
            predicted = None if self.capture.classes is None else passed.result.argmax(-1)
            return PassResult(passed.sound & passed.finite(), predicted)

    def _checked(self, outcome: Outcome) -> Outcome:
        """The outcome, once it has arrived; OverflowedError if it is not finite."""
        outcome.wait()
        if not bool(outcome.finite.all()):
            name = outcome.batch.ids[int((~outcome.finite).nonzero()[0])]
            raise OverflowedError.of(self.loaded.name, name, self.loaded.module.dtype)
        self.tally.arrive()
        if outcome.arrived is None:
            return_memory(outcome.batch.real.numel() * self._bytes)
        # What was derived of a batch (masks, draws) is not needed again, and batches are read long before they run.
        outcome.batch.forget()
        return outcome
