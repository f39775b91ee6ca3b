"""The explorer in a notebook: the same requests and frames, as messages of a widget (anywidget)."""

from collections.abc import Callable
from functools import cache
from typing import Any

from conoscope.exploring.bundle import built, refuse_missing
from conoscope.exploring.queueing import Answering, Page, Queue
from conoscope.exploring.requests import RequestError, read_request
from conoscope.exploring.server import PAGES

NAME = 64
"""The longest name of a view."""


def widget(answering: Answering, ended: Callable[[], None] | None = None) -> Any:
    """A widget that shows the explorer; its requests are answered one at a time, in a thread of their own. `ended` is called when
    it is closed."""
    refuse_without()
    return _kind()(Talk(answering, ended))


def refuse_without() -> None:
    """ConoscopeError if anywidget is not installed, or the front end not built."""
    refuse_missing("anywidget")
    built("widget.js")


class Talk:
    """The pages of a widget: each of its views is one, under a name that it gave itself."""

    def __init__(self, answering: Answering, ended: Callable[[], None] | None = None) -> None:
        self._queue, self._ended = Queue(answering), ended
        self._pages: dict[str, Page] = {}

    def take(self, widget: Any, content: Any) -> None:
        """Take a message of a view: a request, or its end. What is none is dropped, as nobody waits for an answer."""
        name = content.get("page") if isinstance(content, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= NAME:
            return
        if content.get("closed"):
            if (page := self._pages.pop(name, None)) is not None:
                page.close()
            return
        page = self._page(widget, name)
        try:
            page.take(read_request(content.get("request")))
        except RequestError as error:
            page.refuse(error.number, str(error))

    def _page(self, widget: Any, name: str) -> Page:
        if name not in self._pages:
            # A view that its page forgot to end, as when a notebook is reloaded: the oldest makes room.
            if len(self._pages) >= PAGES:
                self._pages.pop(next(iter(self._pages))).close()
            self._pages[name] = self._queue.page(lambda frame: widget.send({"page": name}, [frame]))
        return self._pages[name]

    def close(self) -> None:
        """Take everything back."""
        self._queue.close()
        if self._ended is not None:
            self._ended()


@cache
def _kind() -> Any:
    """The class of widgets; made when one is asked for, as importing anywidget takes half a second."""
    import anywidget

    class Explorer(anywidget.AnyWidget):
        """The explorer in a cell of a notebook."""

        _esm = built("widget.js")
        _css = built("explorer.css")

        def __init__(self, talk: Talk) -> None:
            super().__init__()
            self._talk = talk
            self.on_msg(lambda widget, content, buffers: talk.take(widget, content))

        def close(self) -> None:
            """End the widget and what it computes."""
            if (talk := getattr(self, "_talk", None)) is not None:
                talk.close()
            super().close()

    return Explorer
