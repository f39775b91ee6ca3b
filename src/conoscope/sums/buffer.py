"""Buffers: the arrays of several batches, kept until there are enough to reduce them together.

In the CPU's memory they are copied into memory that is allocated once: many small arrays kept between the large ones of a forward
pass would fragment the memory, and the process would grow. A GPU's memory is managed by torch, which reuses it, and each copy
would be a kernel: there the arrays are kept as they are.
"""

from typing import Any

import torch
from torch import Tensor

ROOM, MOST = 2**14, 2**22
"""Capacity in numbers: the largest of ROOM a layer, a fourth of what the sum holds, and four batches; at most MOST."""


class BatchBuffer:
    """Buffer of arrays with layers on the first axis and items on the second; a value that is not a tensor is the same for
    all."""

    def __init__(self) -> None:
        self._buffers: list[Any] | None = None
        self._tensors: list[int] = []
        self._numbers = self._capacity = self._taken = 0

    def take(self, arrays: tuple[Any, ...]) -> bool:
        """Append these arrays and return True; return False if there is no room."""
        if self._buffers is None:
            return False
        count = arrays[self._tensors[0]].shape[1]
        if self._taken + count > self._capacity:
            return False
        for at in self._tensors:
            self._buffers[at].narrow(1, self._taken, count).copy_(arrays[at])
        self._taken += count
        return True

    def fits(self, arrays: tuple[Any, ...]) -> bool:
        """Whether these arrays fit into the empty buffer."""
        return self._buffers is not None and arrays[self._tensors[0]].shape[1] <= self._capacity

    def leave(self) -> tuple[Any, ...] | None:
        """Empty the buffer and return its arrays, valid until the next `take`; None if it is empty."""
        taken, self._taken = self._taken, 0
        if self._buffers is None or not taken:
            return None
        return tuple(buffer[:, :taken] if isinstance(buffer, Tensor) else buffer for buffer in self._buffers)

    def make_room(self, arrays: tuple[Any, ...], held: int) -> None:
        """Allocate memory for arrays of this shape, for a sum of `held` numbers; none if one batch would fill it."""
        tensors = [array for array in arrays if isinstance(array, Tensor)]
        layers, count = tensors[0].shape[:2]
        per_item = sum(layers * array.shape[2:].numel() for array in tensors)
        numbers = per_item * count
        room = min(max(ROOM * layers, held // 4, 4 * numbers), MOST)
        capacity = room // max(1, per_item)
        if capacity > self._capacity and numbers < room:
            self._capacity = capacity
            self._buffers = [_room_for(array, capacity) for array in arrays]
            self._tensors = [at for at, array in enumerate(arrays) if isinstance(array, Tensor)]


def _room_for(array: Any, capacity: int) -> Any:
    return array.new_empty((len(array), capacity, *array.shape[2:])) if isinstance(array, Tensor) else array


def _numbers_of(arrays: tuple[Any, ...]) -> int:
    return sum(array.numel() for array in arrays if isinstance(array, Tensor))


BATCHES, LISTED = 8, 2**20
"""How many batches a BatchList keeps, and at most how many numbers: all lists together take memory."""


class BatchList:
    """The same for arrays on a GPU: no copy until they leave."""

    def __init__(self) -> None:
        self._batches: list[tuple[Any, ...]] = []
        self._numbers, self._room = 0, LISTED

    def take(self, arrays: tuple[Any, ...]) -> bool:
        """Append these arrays and return True; return False if there is no room."""
        numbers = _numbers_of(arrays)
        if self._numbers + numbers > self._room or len(self._batches) == BATCHES:
            return False
        self._batches.append(arrays)
        self._numbers += numbers
        return True

    def fits(self, arrays: tuple[Any, ...]) -> bool:
        """Whether these arrays fit into the empty list."""
        return _numbers_of(arrays) <= self._room

    def leave(self) -> tuple[Any, ...] | None:
        """Empty the list and return its arrays, concatenated; None if it is empty."""
        batches, self._batches, self._numbers = self._batches, [], 0
        if not batches:
            return None
        return tuple(
            torch.cat(array, dim=1) if isinstance(array[0], Tensor) else array[0] for array in zip(*batches, strict=True)
        )

    def make_room(self, arrays: tuple[Any, ...], held: int) -> None:
        """Room for some batches, unless one has too many numbers: a fourth of what the sum holds, at least LISTED."""
        self._room = max(LISTED, held // 4)
