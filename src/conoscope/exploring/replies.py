"""Reply: what a verb answers. Turn: how a verb is cancelled and tells its progress while it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from conoscope.exploring.session import Session


class Cancelled(Exception):
    """A request was taken back while it ran. No error of a user: a host answers it with `cancelled`."""


@dataclass(frozen=True)
class Reply:
    """The answer of a verb: `data` goes into the frame's header as JSON, `arrays` follow it as they are.

    `data` holds what JSON knows, and may hold numbers that are not finite, which a host writes as null.
    """

    data: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The size of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True)
class Turn:
    """One request while it runs. A host sets `stop`, from any thread, to take the request back."""

    stop: Event = field(default_factory=Event)
    tell: Callable[[float, str], None] | None = None

    def check(self) -> None:
        """Cancelled if the request was taken back; slow verbs ask between their steps."""
        if self.stop.is_set():
            raise Cancelled

    def progress(self, share: float, doing: str) -> None:
        """Tell the share that is done, from 0 to 1, and what is being done; Cancelled if the request was taken back."""
        self.check()
        if self.tell is not None:
            self.tell(share, doing)


@runtime_checkable
class Handler(Protocol):
    """A verb: a function from the session, the request's `params` and its turn to a reply; ConoscopeError for what it refuses."""

    def __call__(self, session: "Session", params: Mapping[str, Any], turn: Turn, /) -> Reply:
        """The reply to one request."""
        ...
