"""Queue: one request at a time, in a thread of its own; pages ask and take back, and one page does not keep another waiting."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from conoscope.common.errors import ConoscopeError, shortened
from conoscope.common.terminal import complain, printable, say
from conoscope.exploring.frames import answer_frame, cancelled_frame, error_frame, progress_frame
from conoscope.exploring.replies import Cancelled, Reply, Turn
from conoscope.exploring.requests import Request, Withdrawal

Answering = Callable[[str, Mapping[str, Any], Turn], Reply]
"""What answers a request: a verb, its parameters and its turn."""
WAITING = 64
"""How many requests of one page may wait."""
LATER = frozenset({"words", "deletion", "export"})
"""Verbs that may be slow: others of the same page go first."""
EVERY = 0.05
"""Seconds between two frames of progress at least."""
LAST = 2.0
"""Seconds that closing waits for the request that runs."""


@dataclass(eq=False)
class _Asked:
    """A request of a page, and how it is told to stop."""

    request: Request
    stop: threading.Event = field(default_factory=threading.Event)


class Page:
    """What one page asked and has no answer to yet. `send` takes frames, from any thread, and must not wait."""

    def __init__(self, queue: "Queue", send: Callable[[bytes], None]) -> None:
        self._queue, self._send = queue, send
        self.waiting: deque[_Asked] = deque()
        self.running: _Asked | None = None
        self.closed = False

    def take(self, found: Request | Withdrawal) -> None:
        """Queue a request, or take one back."""
        if isinstance(found, Withdrawal):
            self._queue.withdraw(self, lambda asked: asked.request.number == found.number)
        else:
            self._queue.ask(self, found)

    def close(self) -> None:
        """Take back all that was asked; nothing is sent any more."""
        self.closed = True
        self._queue.withdraw(self, lambda _: True)
        self._queue.forget(self)

    def send(self, frame: bytes) -> None:
        """Send a frame, unless the page is closed."""
        if not self.closed:
            self._send(frame)

    def refuse(self, number: int | None, line: str) -> None:
        """Say in one line why there is no answer."""
        self.send(error_frame(number, line))

    def unanswered(self) -> Iterator[_Asked]:
        """What runs and what waits."""
        yield from (() if self.running is None else (self.running,))
        yield from self.waiting

    def next(self) -> _Asked:
        """Take the request that runs next out of those that wait: the oldest that is quick, or else the oldest."""
        chosen = next((asked for asked in self.waiting if asked.request.verb not in LATER), self.waiting[0])
        self.waiting.remove(chosen)
        return chosen


class Queue:
    """Requests of several pages, answered one at a time, in turn."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._pages: deque[Page] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="conoscope-explorer", daemon=True)
        self._thread.start()

    def page(self, send: Callable[[bytes], None]) -> Page:
        """A new page."""
        page = Page(self, send)
        with self._changed:
            self._pages.append(page)
        return page

    def ask(self, page: Page, request: Request) -> None:
        """Queue a request; those of the same page and lane are taken back."""
        if request.lane is not None:
            self.withdraw(page, lambda asked: asked.request.lane == request.lane)
        with self._changed:
            if len(page.waiting) >= WAITING:
                refusal = f"{WAITING} requests wait already; wait for an answer"
            elif any(asked.request.number == request.number for asked in page.unanswered()):
                refusal = f"a request of the id {request.number} has no answer yet; give each its own"
            else:
                page.waiting.append(_Asked(request))
                self._changed.notify()
                return
        page.refuse(request.number, refusal)

    def withdraw(self, page: Page, chosen: Callable[[_Asked], bool]) -> None:
        """Take the chosen requests of a page back: drop those that wait, stop the one that runs."""
        with self._changed:
            dropped = [asked for asked in page.waiting if chosen(asked)]
            for asked in dropped:
                page.waiting.remove(asked)
            if page.running is not None and chosen(page.running):
                page.running.stop.set()
        for asked in dropped:
            page.send(cancelled_frame(asked.request.number))

    def forget(self, page: Page) -> None:
        """Take a page out of the turn."""
        with self._changed:
            if page in self._pages:
                self._pages.remove(page)

    def close(self) -> None:
        """Take everything back and end the thread; wait a moment for the request that runs."""
        with self._changed:
            self._closed = True
            pages = list(self._pages)
            self._changed.notify()
        for page in pages:
            page.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(LAST)

    def _work(self) -> None:
        while (found := self._next()) is not None:
            page, asked = found
            frame = self._answer(page, asked)
            with self._changed:
                page.running = None
            page.send(frame)

    def _next(self) -> tuple[Page, _Asked] | None:
        """The next page in turn that asks something, and its request; None when the queue is closed."""
        with self._changed:
            while not self._closed:
                for page in self._pages:
                    if page.waiting:
                        self._pages.remove(page)
                        self._pages.append(page)
                        page.running = page.next()
                        return page, page.running
                self._changed.wait()
        return None

    def _answer(self, page: Page, asked: _Asked) -> bytes:
        number = asked.request.number
        turn = Turn(asked.stop, _telling(page, number))
        try:
            turn.check()
            reply = self._answering(asked.request.verb, asked.request.params, turn)
            turn.check()
            return answer_frame(number, reply)
        except Cancelled:
            return cancelled_frame(number)
        except ConoscopeError as error:
            return error_frame(number, printable(shortened(str(error))))
        except Exception as error:
            say(traceback.format_exc().rstrip(), error=True)
            complain(f"this is an error of conoscope, not yours: {type(error).__name__}: {error}; please report it", always=True)
            return error_frame(number, f"something went wrong ({type(error).__name__}); where conoscope runs, it says what")


def _telling(page: Page, number: int) -> Callable[[float, str], None]:
    last = -EVERY

    def tell(share: float, doing: str) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            page.send(progress_frame(number, share, doing))

    return tell
