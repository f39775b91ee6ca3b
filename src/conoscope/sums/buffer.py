"""Waiting: arrays of several batches, laid one after the other until there is no more room.

The room is allocated once. Many small arrays that live on between the large ones of a forward pass would leave its memory in
pieces, and a process growing.
"""

from typing import Any

from torch import Tensor

ROOM = 2**14
"""How many numbers may wait: these, or a fourth of what the sum holds, or four batches; eight times as many at the most."""


class BatchBuffer:
    """Arrays with the items first; what is no tensor is the same for all items."""

    def __init__(self) -> None:
        self._buffers: list[Any] | None = None
        self._tensors: list[int] = []
        self._numbers = self._capacity = self._taken = 0

    def take(self, arrays: tuple[Any, ...]) -> bool:
        """Lay these after the others, if there is room."""
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
        """All that waits, valid until the next is taken; None for nothing."""
        taken, self._taken = self._taken, 0
        if self._buffers is None or not taken:
            return None
        return tuple(buffer[:taken] if isinstance(buffer, Tensor) else buffer for buffer in self._buffers)

    def make_room(self, arrays: tuple[Any, ...], held: int) -> None:
        """Room for arrays such as these, where a sum holds so many numbers; none for those that would fill it at once."""
        of_item = sum(array.shape[1:].numel() for array in arrays if isinstance(array, Tensor))
        numbers = of_item * _count(arrays)
        room = min(max(ROOM, held // 4, 4 * numbers), 8 * ROOM)
        capacity = room // max(1, of_item)
        if capacity > self._capacity and numbers < room:
            self._capacity = capacity
            self._buffers = [_room_for(array, capacity) for array in arrays]
            self._tensors = [at for at, array in enumerate(arrays) if isinstance(array, Tensor)]


def _count(arrays: tuple[Any, ...]) -> int:
    return next(len(array) for array in arrays if isinstance(array, Tensor))


def _room_for(array: Any, capacity: int) -> Any:
    return array.new_empty((capacity, *array.shape[1:])) if isinstance(array, Tensor) else array
