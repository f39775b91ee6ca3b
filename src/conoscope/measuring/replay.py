"""Replay: on a GPU a batch of a shape that was seen before is run again as it was recorded, without asking Python.

Queueing a thousand small operations takes a CPU longer than a GPU takes to run them. A CUDA graph queues all of them at once, but
it runs the same operations at the same places in memory. So whatever differs between batches of one shape lies in one array of
bytes, which is copied to the GPU in one piece; samples are filled up to a fixed number of places; and what a batch leaves is
copied before the next one runs.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from conoscope.capture.batch import Batch
from conoscope.capture.masks import as_if_not_recorded
from conoscope.capture.sending import Layout
from conoscope.measures.needs import Need
from conoscope.measures.places import Places, Rooms
from conoscope.measures.tally import Tally
from conoscope.sums.stacked import Slots

MOST, LONG = 32, 256
"""How many programs there are at most; and after how many batches without it one gives way to another."""
MOST_LAYOUTS = 64
"""How many layouts of one shape are remembered: of short texts nearly every batch has its own."""
ATTEMPTS = 2
"""How often recording may fail."""
LEAST = 16
"""At least so many places are computed of a sample that takes any."""
SPARE, PATIENCE = 512, 6
"""If so many batches in a row need less than a third of the places, but for some to spare, there will be fewer."""
STEP = 256
"""Unions of places are filled up to a multiple of this."""
Told = tuple[Tensor, Tensor | None]
"""Which examples did not overflow, and the predicted classes, if there are any."""
Take = Callable[[Slots, Any, Batch], None]
Body = Callable[[Batch, Places, Take], Told]


@runtime_checkable
class Graph(Protocol):
    """What runs within `recording` is recorded instead, and runs whenever `replay` is called."""

    def recording(self) -> Any:
        """Context that records."""

    def replay(self) -> None:
        """Run what was recorded."""


class CudaGraph:
    """A CUDA graph. `beside`: another one, whose memory it shares: what one leaves there must be read before the other runs."""

    def __init__(self, device: torch.device, beside: "CudaGraph | None" = None) -> None:
        self._graph, self._device = torch.cuda.CUDAGraph(), device
        self.pool: Any = torch.cuda.graph_pool_handle() if beside is None else beside.pool
        self.stream: torch.cuda.Stream = torch.cuda.Stream(device) if beside is None else beside.stream

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Context that records; other threads may go on using the GPU."""
        stream, now = self.stream, torch.cuda.current_stream(self._device)
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            self._graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
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
    last: int = 0
    """The number of the batch that it ran on last."""

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
                if isinstance(found, Tensor):
                    # A GPU copies sampled values to the CPU before the next pass.
                    self.tally.take(slots, found.clone() if found.device.type == "cpu" else found, host)
                else:
                    self.tally.take(slots, tuple(_copied(array, copies) for array in found), host)
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
    """What is known of batches of one shape: how many places are computed; the layouts that ran operation by operation, and the
    programs of those that came again; how many batches in a row needed far fewer places."""

    rooms: Rooms
    ran: set[Layout] = field(default_factory=set)
    programs: dict[Layout, Program] = field(default_factory=dict)
    loose: int = 0


Kept = list[tuple[dict[str, Any], str, Tensor]]


def _kept_by(module: nn.Module) -> Kept:
    """The tensors that modules keep beside their parameters, each with the dictionary that holds it."""
    holders: list[dict[str, Any]] = []
    for part in module.modules():
        holders += [vars(part), part._buffers]
    return [(held, name, x) for held in holders for name, x in held.items() if isinstance(x, Tensor)]


def _same(one: Kept, other: Kept) -> bool:
    return len(one) == len(other) and all(a[2] is b[2] for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class Ready:
    """A batch that can be run: what is known of its shape, its places, and all that is sent of it, as one array of bytes."""

    host: Batch
    shape: Shape
    places: Places
    layout: Layout
    bytes: UInt8[Tensor, " bytes"]


class Replays:
    """Runs batches, and records those of a shape that comes again. `body`: runs a batch that lies on the GPU; `reason`: why
    nothing is recorded, if nothing is."""

    def __init__(
        self,
        tally: Tally,
        module: nn.Module,
        device: torch.device,
        body: Body,
        graph: Callable[[torch.device, Any], Graph] = CudaGraph,
    ) -> None:
        self.tally, self.module, self.device, self._body, self._graph = tally, module, device, body, graph
        self.reason: str | None = None
        self._failures = self._batches = 0
        self._epoch, self._kept = tally.epoch, _kept_by(module)
        self._ready: Ready | None = None
        self._drawn: dict[Hashable, Callable[[Batch], Tensor]] = {}
        self._places: dict[Hashable, None] = {}
        self._shapes: dict[Hashable, Shape] = {}

    def prepare(self, batch: Batch) -> None:
        """Do what the CPU has to do for the batch that runs next, while the GPU computes."""
        self._ready = self._prepared(batch.on_host)

    def __call__(self, batch: Batch) -> Told:
        """Run a batch, and add what it leaves to the tally."""
        ready, self._ready = self._ready, None
        if ready is None or ready.host is not batch.on_host:
            ready = self._prepared(batch.on_host)
        shape, layout = ready.shape, ready.layout
        self._batches += 1
        if self._epoch != self.tally.epoch:
            self._epoch = self.tally.epoch
            self._forget()
        if layout in shape.ran and layout not in shape.programs and self.reason is None and self._has_room():
            program = self._recorded(ready)
            if program is not None:
                shape.programs[layout] = program
        if layout in shape.programs:
            program = shape.programs[layout]
            program.last = self._batches
            return program.run(ready.bytes, ready.host)
        moved = _moved(ready.host, ready.places, layout.views(ready.bytes.to(self.device, non_blocking=True)))
        told = self._body(moved, ready.places, self.tally.take)
        # A program reads the tensors that a model keeps (tables of positions, for example) where they were.
        if not _same(kept := _kept_by(self.module), self._kept):
            self._kept = kept
            self._forget()
        if moved.asked or ready.places.asked:
            self._drawn |= moved.asked
            self._places |= ready.places.asked
            layout = Layout.of(self._tensors(ready.host, ready.places))
        if len(shape.ran) == MOST_LAYOUTS:
            shape.ran.clear()
        shape.ran.add(layout)
        return told

    def _forget(self) -> None:
        """Forget what was recorded, and what could be."""
        for shape in self._shapes.values():
            shape.ran, shape.programs = set(), {}

    def _has_room(self) -> bool:
        """Whether one more program may be kept; if there are too many, one that has not run for long gives way."""
        programs = [(program.last, shape, at) for shape in self._shapes.values() for at, program in shape.programs.items()]
        if len(programs) < MOST:
            return True
        last, shape, layout = min(programs, key=itemgetter(0))
        if self._batches - last < LONG:
            return False
        del shape.programs[layout]
        return True

    def _prepared(self, host: Batch) -> Ready:
        shape, places = self._placed(host)
        tensors = self._tensors(host, places)
        layout = Layout.of(tensors)
        return Ready(host, shape, places, layout, layout.packed(tensors, pinned=self.device.type == "cuda"))

    def _placed(self, host: Batch) -> tuple[Shape, Places]:
        """What is known of batches of this shape, with rooms into which this one fits, and its places."""
        chosen, kind = self.tally.planned(host), _kind_of(host)
        known = self._shapes.setdefault(kind, Shape(Rooms({})))
        places = Places(host, self.tally.stacked, chosen, known.rooms)
        counts = {need: each.count for need, each in chosen.items()}
        # Samples take ever fewer items.
        known.loose = known.loose + 1 if sum(known.rooms.of.values()) > SPARE + 3 * sum(counts.values()) else 0
        if known.loose > PATIENCE:
            known = self._with_rooms(
                host, {need: max(_room(counts.get(need, 0)), LEAST) for need, room in known.rooms.of.items() if room}
            )
        elif not places.fits():
            of = {need: max(known.rooms.of.get(need, 0), _room(count)) for need, count in counts.items()}
            known = self._with_rooms(host, of, known.rooms.union)
        else:
            return known, places
        self._shapes[kind] = known
        places = Places(host, self.tally.stacked, chosen, known.rooms)
        return known, places

    def _with_rooms(self, host: Batch, of: dict[Need, int], least: Mapping[Hashable, int] | None = None) -> Shape:
        joined, least = Places(host, self.tally.stacked, self.tally.planned(host), Rooms(of)).joined_sizes(), least or {}
        return Shape(Rooms(of, {group: max(least.get(group, 0), _union_room(size)) for group, size in joined.items()}))

    def _tensors(self, host: Batch, places: Places) -> dict[Hashable, Tensor]:
        """All that is sent of a batch, by name: its own tensors, and what earlier batches asked for."""
        tensors = host.tensors()
        for key, compute in self._drawn.items():
            tensors["drawn", key] = _drawn(host, key, compute)
        for name in self._places:
            if (found := places.on_host(name)) is not None:
                tensors["places", name] = found
        return tensors

    def _recorded(self, ready: Ready) -> Program | None:
        """The program of batches laid out like this one, whose shape ran before; None if it cannot be recorded."""
        places = Places(ready.host, self.tally.stacked, self.tally.planned(ready.host), ready.shape.rooms)
        living = self._living()
        try:
            if living is None and self.device.type == "cuda":
                # What was freed lies idle in torch's cache, and a program has memory of its own.
                torch.cuda.empty_cache()
            bytes = ready.bytes.to(self.device, copy=True, non_blocking=True)
            moved, graph = _moved(ready.host, places, ready.layout.views(bytes)), self._graph(self.device, living)
            program = Program(ready.layout, bytes, graph, self.tally)
            with graph.recording(), as_if_not_recorded():
                program.told = self._body(moved, places, program.take)
        # Whatever a model or a driver objects to, such as waiting for the GPU: the batch runs as it did before.
        except Exception as error:
            cause = error.__cause__ or error
            self._failed(f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}")
            self._restore()
            return None
        if moved.asked or places.asked or not _same(_kept_by(self.module), self._kept):
            self._failed("they ask for what was not sent with them, or the model keeps what it computes")
            self._restore()
            return None
        self._failures = 0
        return program

    def _restore(self) -> None:
        """Take back what the model kept of a batch that never ran."""
        for values, name, _ in _kept_by(self.module):
            del values[name]
        for values, name, tensor in self._kept:
            values[name] = tensor

    def _failed(self, why: str) -> None:
        # Libraries may prepare themselves for what they first do in a second batch.
        self._failures += 1
        if self._failures == ATTEMPTS:
            self.reason = f"batches cannot be recorded and replayed ({why})"

    def _living(self) -> Graph | None:
        """A graph that was recorded and not forgotten."""
        return next((program.graph for shape in self._shapes.values() for program in shape.programs.values()), None)

    def _programs(self) -> int:
        return sum(len(shape.programs) for shape in self._shapes.values())


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
    """How many places are computed of a sample that took so many: later batches rarely take many more."""
    return count * 5 // 4 + LEAST if count else 0


def _union_room(size: int) -> int:
    return -(-(size + size // 16) // STEP) * STEP
