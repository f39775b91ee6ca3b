"""Turns: requests and work in the background use the models one at a time, and requests go first.

So it is in all sessions of a process together: in a notebook a cell that is run again opens the same model once more.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PAUSE = 0.5
"""Seconds without a request after which work in the background goes on."""


class Interrupted(Exception):
    """A request came while a step of work in the background ran; the step is to be taken again."""


class _Use:
    """The use of models by all sessions: whose turn it is, how many requests run or wait, and when the last one ended."""

    def __init__(self) -> None:
        self.lock, self.changed = threading.RLock(), threading.Condition()
        self.requests, self.last = 0, -math.inf


_use = _Use()


class Turns:
    """Who may use the models: `with turns.request():` for a request, `with turns.step() as check:` for a step of other work."""

    def __init__(self, pause: float = PAUSE) -> None:
        self.pause = pause
        self._closed = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Context of a request; it waits for other requests, and for a step to end. A request may ask others."""
        with _use.changed:
            _use.requests += 1
            _use.changed.notify_all()
        try:
            with _use.lock:
                yield
        finally:
            with _use.changed:
                _use.requests -= 1
                _use.last = time.monotonic()
                _use.changed.notify_all()

    @contextmanager
    def step(self) -> Iterator[Callable[[], None]]:
        """Context of a step, begun when nobody has asked for a while. Long steps call what it yields, and end by Interrupted when
        a request waits; so does a step that would begin after `close`."""
        with _use.changed:
            while not self._closed and (_use.requests or (left := _use.last + self.pause - time.monotonic()) > 0):
                _use.changed.wait(None if _use.requests else left)
            if self._closed:
                raise Interrupted
        with _use.lock:
            yield self._check

    def close(self) -> None:
        """End all steps."""
        with _use.changed:
            self._closed = True
            _use.changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether no more steps begin."""
        return self._closed

    def _check(self) -> None:
        if _use.requests or self._closed:
            raise Interrupted
