"""Replay: on a GPU, batches of a shape that comes again run as one captured CUDA graph.

Queueing a thousand small operations takes a CPU longer than a GPU takes to run them. A CUDA graph queues all of them at once, but
it runs the same operations on the same memory. So whatever differs between batches of one shape lies in one array of bytes, which
is copied to the GPU in one piece; sampled indices are padded to a fixed number (capacities.py); and results are copied before the
next batch runs.
"""

import traceback
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from conoscope.capture.batch import Batch
from conoscope.capture.masks import without_graph_capture
from conoscope.capture.sending import Layout
from conoscope.measures.places import Places
from conoscope.measures.tally import Tally
from conoscope.measuring.capacities import ShapeCapacities
from conoscope.measuring.graphs import CudaGraph, Graph, GraphMemory
from conoscope.measuring.module_state import ModuleState
from conoscope.measuring.program import Body, PassResult, Program

MOST, LONG = 32, 256
"""The largest number of programs; one that was not used for LONG batches may be replaced by another."""
MOST_LAYOUTS = 64
"""How many layouts of one shape are remembered: among short texts nearly every batch has its own."""
ATTEMPTS = 2
"""After so many failures in a row, no batch is captured any more."""


@dataclass
class Shape:
    """What is known of batches of one shape: their capacities; the layouts that ran operation by operation, and the programs of
    those that came again."""

    capacities: ShapeCapacities
    ran: set[Layout] = field(default_factory=set)
    programs: dict[Layout, Program] = field(default_factory=dict)

    def places(self, host: Batch) -> Places:
        """The indices of a batch of this shape. With other capacities, other operations run: what was captured is dropped."""
        before, places = self.capacities.current, self.capacities.places(host)
        if self.capacities.current is not before:
            self.forget()
        return places

    def forget(self) -> None:
        """Forget what was captured, and what could be."""
        self.ran, self.programs = set(), {}


@dataclass(frozen=True)
class Ready:
    """A batch that is prepared to run: its shape, its indices, and everything to send, packed into one array of bytes."""

    host: Batch
    shape: Shape
    places: Places
    layout: Layout
    packed: UInt8[Tensor, " bytes"]


class Replays:
    """Runs batches, and captures those of a shape that comes again.

    `body`: runs a batch that lies on the GPU. `reason`: why no batch is captured any more, None as long as batches are.
    """

    def __init__(
        self,
        tally: Tally,
        module: nn.Module,
        device: torch.device,
        body: Body,
        graph: Callable[[GraphMemory], Graph] = CudaGraph,
    ) -> None:
        self.tally, self.module, self.device, self._body, self._graph = tally, module, device, body, graph
        self.reason: str | None = None
        self.batches = self.replayed = 0
        """How many batches were run, and how many of them replayed."""
        self._failures = 0
        self._flushes, self._state = tally.flushes, ModuleState.of(module)
        self._memory = GraphMemory(device)
        self._ready: Ready | None = None
        self._drawn: dict[Hashable, Callable[[Batch], Tensor]] = {}
        self._places: dict[Hashable, None] = {}
        self._shapes: dict[Hashable, Shape] = {}

    def prepare(self, batch: Batch) -> None:
        """Prepare the batch that runs next, while the GPU computes."""
        self._ready = self._prepared(batch.on_host)

    def __call__(self, batch: Batch) -> PassResult:
        """Run a batch, and add its results to the tally."""
        ready, self._ready = self._ready, None
        if ready is None or ready.host is not batch.on_host:
            ready = self._prepared(batch.on_host)
        shape, layout = ready.shape, ready.layout
        self.batches += 1
        # After a flush, sums lie in other memory.
        if self._flushes != self.tally.flushes:
            self._flushes = self.tally.flushes
            self.forget()
        if layout in shape.ran and layout not in shape.programs and self._may_capture(batch):
            program = self._captured(ready)
            if program is not None:
                shape.programs[layout] = program
        if layout in shape.programs:
            program = shape.programs[layout]
            program.last, self.replayed = self.batches, self.replayed + 1
            return program.run(ready.packed, ready.host)
        if not self._memory.fits(batch.real.numel()):
            self._stop_for_memory()
        return self._run_unrecorded(ready)

    def forget(self) -> None:
        """Forget all programs, and give their memory back."""
        for shape in self._shapes.values():
            shape.forget()
        self._memory.release()

    def _run_unrecorded(self, ready: Ready) -> PassResult:
        """Run a batch operation by operation."""
        shape, layout = ready.shape, ready.layout
        moved = _moved(ready.host, ready.places, layout.views(ready.packed.to(self.device, non_blocking=True)))
        result = self._body(moved, ready.places, self.tally.add_result)
        if not self._state.holds_the_same_tensors(state := ModuleState.of(self.module)):
            self._state = state
            self.forget()
        if moved.asked or ready.places.asked:
            self._drawn |= moved.asked
            self._places |= ready.places.asked
            layout = Layout.of(self._tensors(ready.host, ready.places))
        if len(shape.ran) == MOST_LAYOUTS:
            shape.ran.clear()
        shape.ran.add(layout)
        return result

    def _may_capture(self, batch: Batch) -> bool:
        """Whether one more program may be kept; one that was not used for long may be dropped for it."""
        if self.reason is not None or not self._memory.fits(batch.real.numel()):
            return False
        programs = [(program.last, shape, at) for shape in self._shapes.values() for at, program in shape.programs.items()]
        if len(programs) < MOST:
            return True
        last, shape, layout = min(programs, key=itemgetter(0))
        if self.batches - last < LONG:
            return False
        del shape.programs[layout]
        return True

    def _prepared(self, host: Batch) -> Ready:
        shape = self._shapes.setdefault(_kind_of(host), Shape(ShapeCapacities(self.tally)))
        places = shape.places(host)
        tensors = self._tensors(host, places)
        layout = Layout.of(tensors)
        return Ready(host, shape, places, layout, layout.packed(tensors, pinned=self.device.type == "cuda"))

    def _tensors(self, host: Batch, places: Places) -> dict[Hashable, Tensor]:
        """Everything to send of a batch, by name: its own tensors, and what earlier batches asked for."""
        tensors = host.tensors()
        for key, compute in self._drawn.items():
            tensors["drawn", key] = _drawn(host, key, compute)
        for name in self._places:
            if (found := places.on_host(name)) is not None:
                tensors["places", name] = found
        return tensors

    def _captured(self, ready: Ready) -> Program | None:
        """The program of batches laid out like this one, of which one ran before; None if it cannot be captured."""
        places, before = ready.shape.capacities.padded(ready.host), ModuleState.of(self.module)
        try:
            program, asked = self._capture(ready, places)
        # Whatever a model or a driver objects to, such as waiting for the GPU: the batch runs operation by operation.
        except Exception as error:
            before.restore()
            _free_frames(error)
            if _is_out_of_memory(error):
                self._stop_for_memory()
            else:
                self._failed(_why(error))
            return None
        if asked or places.asked or not self._state.holds_the_same_tensors(ModuleState.of(self.module)):
            before.restore()
            self._failed("they ask for what was not sent with them, or the model keeps what it computes")
            return None
        self._failures = 0
        return program

    def _capture(self, ready: Ready, places: Places) -> tuple[Program, Any]:
        """A program, and what had to be sent by itself while it was captured."""
        with self._memory.growing(ready.host.real.numel()):
            packed = ready.packed.to(self.device, copy=True, non_blocking=True)
            moved, graph = _moved(ready.host, places, ready.layout.views(packed)), self._graph(self._memory)
            program = Program(ready.layout, packed, graph, self.tally)
            with graph.capturing(), without_graph_capture():
                program.result = self._body(moved, places, program.add_result)
        return program, moved.asked

    def _failed(self, why: str) -> None:
        # Libraries may prepare themselves for what they first do in a second batch.
        self._failures += 1
        if self._failures == ATTEMPTS:
            self.reason = f"batches cannot be recorded and replayed ({why})"

    def _stop_for_memory(self) -> None:
        self.reason = "batches are no longer recorded and replayed: the GPU's memory is short; a smaller --batch-size leaves room"
        self.forget()


def _with_causes(error: BaseException) -> list[BaseException]:
    """An error, what caused it, and so on."""
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None and cause not in found:
        found.append(cause)
    return found


def _is_out_of_memory(error: BaseException) -> bool:
    return any(isinstance(each, torch.OutOfMemoryError) for each in _with_causes(error))


def _why(error: BaseException) -> str:
    """The type of an error and the first line of its text; of its cause, if it has one."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}"


def _free_frames(error: BaseException) -> None:
    """Free what the functions that failed have in memory, which their error keeps alive."""
    for each in _with_causes(error):
        traceback.clear_frames(each.__traceback__)


def _kind_of(host: Batch) -> Hashable:
    """What batches must have in common to run the same operations, beside the shapes of all that is sent."""
    shape = tuple(host.real.shape)
    return shape, bool(host.real.all()), host.pad, host.reads, host.classes, len(host.kinds), host.frequency is None


def _moved(host: Batch, places: Places, sent: Mapping[Hashable, Tensor]) -> Batch:
    """The batch on a GPU, where these tensors of it are."""
    moved = host.with_tensors({name: sent[name] for name in host.tensors()}, host)
    for name, tensor in sent.items():
        if isinstance(name, tuple) and name[0] == "drawn":
            moved.cache[name] = tensor
    places.move(moved, {name[1]: tensor for name, tensor in sent.items() if isinstance(name, tuple) and name[0] == "places"})
    return moved


def _drawn(host: Batch, key: Hashable, compute: Callable[[Batch], Tensor]) -> Tensor:
    found: Tensor = host.memo(key, lambda: compute(host))
    return found
