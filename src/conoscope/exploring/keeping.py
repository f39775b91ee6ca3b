"""Cache: what was computed last, within a number of bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Sized(Protocol):
    """What says how many bytes it holds."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        ...


T = TypeVar("T", bound=Sized)
LEAST = 1024
"""What anything counts at least: its key, its small parts."""


class Cache:
    """Values by key, of at most `room` bytes together; those that were not asked for longest make room for others.

    A value that has no room even alone is not kept.
    """

    def __init__(self, room: int) -> None:
        self.room, self.nbytes = room, 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value of this key, computed if it is not there."""
        if key in self._values:
            self._values.move_to_end(key)
            found: T = self._values[key][0]
            return found
        value = compute()
        self._keep(key, value)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
        self.nbytes = 0

    def _keep(self, key: Hashable, value: Sized) -> None:
        size = LEAST + value.nbytes
        if size > self.room:
            return
        self._values[key] = value, size
        self.nbytes += size
        while self.nbytes > self.room:
            _, (_, freed) = self._values.popitem(last=False)
            self.nbytes -= freed
