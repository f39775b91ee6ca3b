"""Stacked sums: one statistic for all layers and sites at once, one place of its first axis each; and samples likewise."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from conoscope.sums.buffer import BatchBuffer, BatchList
from conoscope.sums.drawing import Chosen
from conoscope.sums.samples import Sample, staying
from conoscope.sums.statistics import Statistic

LARGE = 2**24
"""How many numbers of arrays are summed at once."""
HELD = 2**22
"""To how many numbers of the sums something is added at once; in the same memory, if there are more."""
PACKED = {"cuda"}
"""The devices on which symmetric matrices are kept as triangles."""
Slot = tuple[Any, int]
"""One place of a stack: a need and a layer."""
Slots = tuple[Slot, ...]
Reduce = Callable[[tuple[Any, ...]], Statistic]


@dataclass
class Stack:
    """The sums of some needs and layers, one place of the first axis each; on a GPU symmetric matrices are kept as triangles."""

    slots: Slots
    kind: type[Statistic]
    state: dict[str, Tensor]

    @classmethod
    def of(cls, slots: Slots, sums: Statistic) -> "Stack":
        """A stack of these sums."""
        return cls(slots, type(sums), _packed(sums))

    def at(self, places: slice) -> Statistic:
        """The sums at some places."""
        shared = self.kind.shared
        return _unpacked(self.kind, {name: x if name in shared else x[places] for name, x in self.state.items()})

    def put(self, places: slice, sums: Statistic) -> None:
        """Replace the sums at some places; in the same memory, unless it is little. On a GPU always: a recorded batch adds to the
        sums where they were."""
        on_cpu = all(x.device.type == "cpu" for x in self.state.values())
        if on_cpu and places == slice(0, len(self.slots)) and self.numel <= HELD:
            self.state = _packed(sums)
            return
        for name, tensor in _packed(sums).items():
            if name not in self.kind.shared:
                self.state[name][places] = tensor

    @property
    def numel(self) -> int:
        """How many numbers it holds."""
        return sum(tensor.numel() for tensor in self.state.values())


def _packed(sums: Statistic) -> dict[str, Tensor]:
    """The fields of a statistic; of symmetric matrices only one side of the diagonal, where memory is scarce."""
    state = sums.state()
    for name in sums.symmetric:
        if state[name].device.type in PACKED:
            there, _ = _places(state[name].shape[-1], state[name].device)
            state[name] = state[name].flatten(-2).index_select(-1, there)
    return state


def _unpacked(kind: type[Statistic], state: Mapping[str, Tensor]) -> Statistic:
    """The statistic with these fields."""
    whole = dict(state)
    for name in kind.symmetric:
        if whole[name].device.type in PACKED:
            width = (math.isqrt(8 * whole[name].shape[-1] + 1) - 1) // 2
            _, back = _places(width, whole[name].device)
            whole[name] = whole[name].index_select(-1, back).unflatten(-1, (width, width))
    return kind.restore(whole)


@cache
def _places(width: int, device: torch.device) -> tuple[Int[Tensor, " n"], Int[Tensor, " m"]]:
    """Where the upper triangle lies in a flattened matrix; and where each number of a symmetric one lies in that triangle.

    Both are made with the first sums, before any batch is recorded: what is made while one is recorded has no contents.
    """
    row, column = torch.triu_indices(width, width)
    back = torch.empty(width, width, dtype=torch.int64)
    back[row, column] = back[column, row] = torch.arange(len(row))
    there = row * width + column
    return there.to(device, non_blocking=True), back.flatten().to(device, non_blocking=True)


class StackedSums:
    """The sums of some needs and layers. Which of them are computed together may change from batch to batch; each has one
    sum."""

    def __init__(self) -> None:
        self.stacks: list[Stack] = []
        self._at: dict[Slot, tuple[Stack, int]] = {}

    def add(self, slots: Slots, part: Statistic) -> None:
        """Add the sums of some needs and layers to those so far."""
        begin = 0
        for stack, first, count in self._runs(slots):
            piece = part if count == len(slots) else part.at(slice(begin, begin + count))
            if stack is None:
                self._keep(Stack.of(slots[begin : begin + count], piece))
            else:
                stack.put(slice(first, first + count), stack.at(slice(first, first + count)) + piece)
            begin += count

    def numbers(self, slots: Slots) -> int:
        """How many numbers are held for some needs and layers, at the most."""
        stacks = {id(stack): stack for slot in slots if (stack := self._at.get(slot, (None, 0))[0]) is not None}
        return sum(stack.numel for stack in stacks.values())

    def holds(self, slots: Slots) -> bool:
        """Whether there are sums of all these needs and layers."""
        return all(slot in self._at for slot in slots)

    def by_slot(self) -> Iterator[tuple[Slot, Statistic]]:
        """The sum of each need and layer, on the CPU."""
        for stack in self.stacks:
            for place, slot in enumerate(stack.slots):
                yield slot, stack.at(slice(place, place + 1)).to(torch.device("cpu")).at(0)

    def _runs(self, slots: Slots) -> list[tuple[Stack | None, int, int]]:
        """How the slots lie in the stacks: the stack (None for new ones), the first place and the number of each run."""
        runs: list[tuple[Stack | None, int, int]] = []
        for slot in slots:
            stack, place = self._at.get(slot, (None, 0))
            if runs and runs[-1][0] is stack and (stack is None or runs[-1][1] + runs[-1][2] == place):
                runs[-1] = (stack, runs[-1][1], runs[-1][2] + 1)
            else:
                runs.append((stack, place, 1))
        return runs

    def _keep(self, stack: Stack) -> None:
        self.stacks.append(stack)
        self._at |= {slot: (stack, place) for place, slot in enumerate(stack.slots)}


@dataclass
class Summing:
    """Arrays of some needs in some layers on their way into the sums: those of several batches are reduced together.

    Arrays have these needs and layers on the first axis and items on the second. `reduce`: from arrays to a statistic. `sums`:
    where they go; None if the statistic has no such axis, and there is one need and layer.
    """

    slots: Slots
    reduce: Reduce
    sums: StackedSums | None
    total: Statistic | None = None
    _buffer: BatchBuffer | BatchList | None = None

    def take(self, arrays: tuple[Any, ...]) -> None:
        """Add the arrays of one batch."""
        if self._buffer is None:
            on_gpu = any(isinstance(array, Tensor) and array.device.type != "cpu" for array in arrays)
            self._buffer = BatchList() if on_gpu else BatchBuffer()
        if self._buffer.take(arrays):
            return
        self.flush()
        self._buffer.make_room(arrays, self._held())
        if not self._buffer.take(arrays):
            self._add(arrays)

    def flush(self) -> None:
        """Add what is buffered to the sums."""
        if self._buffer is not None and (arrays := self._buffer.leave()) is not None:
            self._add(arrays)

    def buffers(self, arrays: tuple[Any, ...]) -> bool:
        """Whether arrays like these are buffered."""
        return self._buffer is not None and self._buffer.fits(arrays)

    def add_in_place(self, arrays: tuple[Any, ...]) -> None:
        """Add arrays to sums that exist already."""
        assert self.sums is not None
        assert self.sums.holds(self.slots), "sums are made by a batch that is not recorded"
        self._add(arrays)

    def _held(self) -> int:
        """How many numbers the sums hold."""
        return self.sums.numbers(self.slots) if self.sums is not None else 0 if self.total is None else self.total.numel

    def _add(self, arrays: tuple[Any, ...]) -> None:
        if self.sums is None:
            part = self.reduce(arrays)
            self.total = part if self.total is None else self.total + part
            return
        # Large ones some places at a time: products in double precision take more memory than the arrays.
        largest = max(array.numel() for array in arrays if isinstance(array, Tensor))
        share = min(1.0, LARGE / max(1, largest), HELD / max(1, self._held()))
        step = max(1, int(len(self.slots) * share))
        for begin in range(0, len(self.slots), step):
            some = slice(begin, begin + step)
            part = self.reduce(tuple(array[some] if isinstance(array, Tensor) else array for array in arrays))
            self.sums.add(self.slots[some], part)

    def by_slot(self) -> Iterator[tuple[Slot, Statistic]]:
        """The sum, on the CPU, if there is one need and layer; none if nothing was added."""
        if self.total is not None:
            yield self.slots[0], self.total.to(torch.device("cpu"))


@dataclass
class StackedSample:
    """The samples of some needs in some layers, in the CPU's memory: the same items in each place of the first axis."""

    slots: Slots
    limits: tuple[int, int]
    groups: Int[Tensor, " k"]
    ranks: Int[Tensor, " k"]
    names: UInt8[Tensor, "k w"]
    values: Float[Tensor, "l k d"]
    _parts: list[tuple[Chosen, Tensor]] = field(default_factory=list)
    _taken: int = 0

    @classmethod
    def of(cls, slots: Slots, chosen: Chosen, values: Float[Tensor, "l n d"]) -> "StackedSample":
        """The sample of one batch."""
        return cls(slots, chosen.limits, chosen.groups, chosen.ranks, chosen.names, values)

    def take(self, chosen: Chosen, values: Float[Tensor, "l n d"]) -> None:
        """Add the chosen items of one batch."""
        self._parts.append((chosen, values))
        self._taken += len(chosen.ranks)
        if self._taken > max(len(self.ranks), 64):
            self.flush()

    def flush(self) -> None:
        """Join what was taken, and drop items that were pushed out. Items that tie are kept: each place settles that by
        itself."""
        if not self._parts:
            return
        parts, values = zip(*self._parts, strict=True)
        self._parts, self._taken = [], 0
        groups, ranks, names = (
            torch.cat([getattr(self, name), *(getattr(part, name) for part in parts)]) for name in ("groups", "ranks", "names")
        )
        stays = staying(groups, ranks, self.limits)
        self.groups, self.ranks, self.names = groups[stays], ranks[stays], names[stays]
        self.values = torch.cat((self.values, *values), dim=1)[:, stays]

    def by_slot(self) -> Iterator[tuple[Slot, Sample]]:
        """The sample of each place."""
        self.flush()
        for place, slot in enumerate(self.slots):
            yield slot, Sample.of(self.groups, self.ranks, self.values[place], self.names, *self.limits)
