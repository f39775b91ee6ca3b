"""Replay: on a GPU a batch of a shape that was seen before is run again as it was recorded, without asking Python.

Queueing a thousand small operations takes a CPU longer than a GPU takes to run them. A CUDA graph queues all of them at once, but
it runs the same operations at the same places in memory. So whatever differs between batches of one shape lies in one array of
bytes, which is copied to the GPU in one piece; samples are filled up to a fixed number of places; and what a batch leaves is
copied before the next one runs.
"""

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from jaxtyping import UInt8
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.sending import Layout
from conoscope.measures.needs import Need
from conoscope.measures.places import Places, Rooms
from conoscope.measures.tally import Tally
from conoscope.sums.stacked import Slots

MOST = 32
"""How many shapes are recorded; then the one that was recorded first is dropped."""
STEP = 256
"""Unions of places are filled up to a multiple of this."""
Told = tuple[Tensor, Tensor | None]
"""Which examples did not overflow, and the predicted classes, if there are any."""
Take = Callable[[Slots, Any, Batch], None]
Body = Callable[[Batch, Places, Take], Told]


class Graph(Protocol):
    """What runs within `recording` is recorded instead, and runs whenever `replay` is called."""

    def recording(self) -> Any:
        """Context that records."""

    def replay(self) -> None:
        """Run what was recorded."""


class CudaGraph:
    """A CUDA graph. All share one pool of memory: what one leaves there must be read before another one runs."""

    _pools: ClassVar[dict[int, Any]] = {}

    def __init__(self, device: torch.device) -> None:
        self._graph, self._device = torch.cuda.CUDAGraph(), device

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Context that records; other threads may go on using the GPU."""
        index = torch.cuda.current_device() if self._device.index is None else self._device.index
        pool = self._pools.setdefault(index, torch.cuda.graph_pool_handle())
        stream, now = torch.cuda.Stream(self._device), torch.cuda.current_stream(self._device)
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            self._graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                yield
            finally:
                self._graph.capture_end()
        now.wait_stream(stream)

    def replay(self) -> None:
        """Run what was recorded, on the current stream."""
        self._graph.replay()


@dataclass
class Program:
    """The recorded pass over batches of one shape.

    `bytes`: where the batch must lie on the GPU, laid out as `layout`; `told` and `found`: what a pass leaves there, valid until
    another pass runs.
    """

    layout: Layout
    bytes: UInt8[Tensor, " bytes"]
    graph: Graph
    tally: Tally
    told: Told | None = None
    found: list[tuple[Slots, Any]] = field(default_factory=list)

    def take(self, slots: Slots, found: Any, batch: Batch) -> None:
        """While it is recorded: add large arrays to the sums, as part of the program, and keep the others to be taken."""
        need: Need = slots[0][0]
        if need.described.sample is not None or self.tally.buffers(slots, found):
            self.found.append((slots, found))
        else:
            self.tally.add_at_once(slots, found)

    def run(self, bytes: UInt8[Tensor, " bytes"], host: Batch) -> Told:
        """Run it on a batch, given in the CPU's memory and as bytes there."""
        self.bytes.copy_(bytes, non_blocking=True)
        self.graph.replay()
        copies: dict[int, Any] = {}
        with torch.inference_mode():
            for slots, found in self.found:
                copied = _copied(found, copies) if isinstance(found, Tensor) else tuple(_copied(x, copies) for x in found)
                self.tally.take(slots, copied, host)
        assert self.told is not None
        sound, predicted = self.told
        return sound.clone(), None if predicted is None else predicted.clone()


def _copied(array: Any, copies: dict[int, Any]) -> Any:
    """A copy of a tensor; the same one if several needs share it."""
    if not isinstance(array, Tensor):
        return array
    if id(array) not in copies:
        copies[id(array)] = array.clone()
    return copies[id(array)]


@dataclass
class Shape:
    """What is known of batches of one shape: how many places are computed; the layout of the last one, if nothing of it was
    sent by itself, and when it ran; the program, if it was recorded."""

    rooms: Rooms
    layout: Layout | None = None
    epoch: int = -1
    program: Program | None = None


class Replays:
    """Runs batches, and records those of a shape that comes again. `body`: runs a batch that lies on the GPU; `reason`: why
    nothing is recorded, if nothing is."""

    def __init__(
        self, tally: Tally, device: torch.device, body: Body, graph: Callable[[torch.device], Graph] = CudaGraph
    ) -> None:
        self.tally, self.device, self._body, self._graph = tally, device, body, graph
        self.reason: str | None = None
        self._checked = False
        self._drawn: dict[Hashable, Callable[[Batch], Tensor]] = {}
        self._places: dict[Hashable, None] = {}
        self._shapes: dict[Hashable, Shape] = {}

    def __call__(self, batch: Batch) -> Told:
        """Run a batch, and add what it leaves to the tally."""
        host = batch.on_host
        shape, places = self._placed(host)
        tensors = self._tensors(host, places)
        layout = Layout.of(tensors)
        bytes = layout.packed(tensors, pinned=self.device.type == "cuda")
        again = shape.layout == layout and shape.epoch == self.tally.epoch
        if again and shape.program is None and self.reason is None:
            shape.program = self._recorded(host, layout, bytes)
            self._forget_some()
        if again and shape.program is not None:
            return shape.program.run(bytes, host)
        moved = _moved(host, places, layout.views(bytes.to(self.device, non_blocking=True)))
        told = self._run(moved, places)
        shape.layout = None if moved.asked or places.asked else layout
        shape.epoch, shape.program = self.tally.epoch, None
        self._drawn |= moved.asked
        self._places |= places.asked
        return told

    def _run(self, moved: Batch, places: Places) -> Told:
        if self._checked or self.reason is not None or self.device.type != "cuda" or not self._places:
            return self._body(moved, places, self.tally.take)
        self._checked = True
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            before = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode(max(1, before))
            try:
                told = self._body(moved, places, self.tally.take)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        if any("synchronizing" in str(warning.message) for warning in waits):
            self.reason = "the model waits for the GPU"
        return told

    def _placed(self, host: Batch) -> tuple[Shape, Places]:
        """What is known of batches of this shape, with rooms into which this one fits, and its places."""
        chosen, known = self.tally.planned(host), self._shapes.setdefault(_kind_of(host), Shape(Rooms({})))
        places = Places(host, self.tally.stacked, chosen, known.rooms)
        if not places.fits():
            of = {need: max(known.rooms.of.get(need, 0), _room(each.count)) for need, each in chosen.items()}
            joined = Places(host, self.tally.stacked, chosen, Rooms(of)).joined_sizes()
            union = {group: max(known.rooms.union.get(group, 0), _union_room(size)) for group, size in joined.items()}
            known = self._shapes[_kind_of(host)] = Shape(Rooms(of, union))
            places = Places(host, self.tally.stacked, chosen, known.rooms)
        return known, places

    def _tensors(self, host: Batch, places: Places) -> dict[Hashable, Tensor]:
        """All that is sent of a batch, by name: its own tensors, and what earlier batches asked for."""
        tensors = host.tensors()
        for key, compute in self._drawn.items():
            tensors["drawn", key] = _drawn(host, key, compute)
        for name in self._places:
            if (found := places.on_host(name)) is not None:
                tensors["places", name] = found
        return tensors

    def _recorded(self, host: Batch, layout: Layout, packed: UInt8[Tensor, " bytes"]) -> Program | None:
        """The program of batches laid out like this one; None, with a reason, if it cannot be recorded."""
        rooms = self._shapes[_kind_of(host)].rooms
        places = Places(host, self.tally.stacked, self.tally.planned(host), rooms)
        bytes = packed.to(self.device, copy=True, non_blocking=True)
        moved, graph = _moved(host, places, layout.views(bytes)), self._graph(self.device)
        program = Program(layout, bytes, graph, self.tally)
        try:
            with graph.recording():
                program.told = self._body(moved, places, program.take)
        # Whatever a model or a driver objects to: the batch runs as it did before.
        except Exception as error:
            self.reason = f"recording failed ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
            return None
        if moved.asked or places.asked:
            self.reason = f"not known beforehand: {[*moved.asked, *places.asked][0]}"
            return None
        return program

    def _forget_some(self) -> None:
        recorded = [shape for shape in self._shapes.values() if shape.program is not None]
        for shape in recorded[:-MOST]:
            shape.program = None


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
    places.arrive(moved, {name[1]: tensor for name, tensor in sent.items() if isinstance(name, tuple) and name[0] == "places"})
    return moved


def _drawn(host: Batch, key: Hashable, compute: Callable[[Batch], Tensor]) -> Tensor:
    found: Tensor = host.memo(key, lambda: compute(host))
    return found


def _room(count: int) -> int:
    """How many places are computed of a sample that took so many: later batches rarely have twice as many."""
    return 2 * count + 16 if count else 0


def _union_room(size: int) -> int:
    return -(-(size + size // 16) // STEP) * STEP
