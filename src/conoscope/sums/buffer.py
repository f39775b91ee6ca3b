"""Batch buffer: concatenates the arrays of several batches until it is full.

Its memory is allocated once. Many small arrays kept between the large ones of a forward pass would fragment the memory, and the
process would grow.
"""

from typing import Any

from torch import Tensor

ROOM = 2**14
"""Capacity in numbers: the largest of ROOM, a fourth of what the sum holds, and four batches; at most 8 ROOM."""


class BatchBuffer:
    """Buffer of arrays with the items along the first axis; a value that is not a tensor is the same for all items."""

    def __init__(self) -> None:
        self._buffers: list[Any] | None = None
        self._tensors: list[int] = []
        self._numbers = self._capacity = self._taken = 0

    def take(self, arrays: tuple[Any, ...]) -> bool:
        """Append these arrays and return True; return False if there is no room."""
        if self._buffers is None:
            return False
        count = arrays[self._tensors[0]].shape[0]
        if self._taken + count > self._capacity:
            return False
        for at in self._tensors:
            self._buffers[at].narrow(0, self._taken, count).copy_(arrays[at])
        self._taken += count
        return True

    def leave(self) -> tuple[Any, ...] | None:
        """Empty the buffer and return its arrays, valid until the next `take`; None if it is empty."""
        taken, self._taken = self._taken, 0
        if self._buffers is None or not taken:
            return None
        return tuple(buffer[:taken] if isinstance(buffer, Tensor) else buffer for buffer in self._buffers)

    def make_room(self, arrays: tuple[Any, ...], held: int) -> None:
        """Allocate memory for arrays of this shape, for a sum of `held` numbers; none if one batch would fill it."""
        per_item = sum(array.shape[1:].numel() for array in arrays if isinstance(array, Tensor))
        numbers = per_item * _count(arrays)
        room = min(max(ROOM, held // 4, 4 * numbers), 8 * ROOM)
        capacity = room // max(1, per_item)
        if capacity > self._capacity and numbers < room:
            self._capacity = capacity
            self._buffers = [_room_for(array, capacity) for array in arrays]
            self._tensors = [at for at, array in enumerate(arrays) if isinstance(array, Tensor)]


def _count(arrays: tuple[Any, ...]) -> int:
    return next(len(array) for array in arrays if isinstance(array, Tensor))


def _room_for(array: Any, capacity: int) -> Any:
    return array.new_empty((capacity, *array.shape[1:])) if isinstance(array, Tensor) else array
