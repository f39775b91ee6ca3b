"""Turns: requests and work in the background use the models one at a time, and requests go first."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PAUSE = 0.5
"""Seconds without a request after which work in the background goes on."""


class Interrupted(Exception):
    """A request came while a step of work in the background ran; the step is to be taken again."""


class Turns:
    """Who may use the models: `with turns.request():` for a request, `with turns.step() as check:` for a step of other work."""

    def __init__(self, pause: float = PAUSE) -> None:
        self.pause = pause
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._requests = 0
        self._last = -pause
        self._closed = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Context of a request; it waits for other requests, and for a step to end. A request may ask others."""
        with self._changed:
            self._requests += 1
            self._changed.notify_all()
        try:
            with self._lock:
                yield
        finally:
            with self._changed:
                self._requests -= 1
                self._last = time.monotonic()
                self._changed.notify_all()

    @contextmanager
    def step(self) -> Iterator[Callable[[], None]]:
        """Context of a step, begun when nobody has asked for a while. Long steps call what it yields, and end by Interrupted when
        a request waits; so does a step that would begin after `close`."""
        with self._changed:
            while not self._closed and (self._requests or (left := self._last + self.pause - time.monotonic()) > 0):
                self._changed.wait(None if self._requests else left)
            if self._closed:
                raise Interrupted
        with self._lock:
            yield self._check

    def close(self) -> None:
        """End all steps."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether no more steps begin."""
        return self._closed

    def _check(self) -> None:
        if self._requests or self._closed:
            raise Interrupted
