"""explore(): the explorer where it is asked for, a widget in a notebook and a local page elsewhere."""

import os
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import ConoscopeError
from conoscope.common.terminal import doing, printable, say
from conoscope.corpora import Texts
from conoscope.exploring.replies import Reply, Turn
from conoscope.exploring.requests import CHARACTERS

if TYPE_CHECKING:
    from conoscope.exploring.session import Session


PATIENCE = 120.0
"""Seconds that a page which is written waits for the predictions of its corpus."""


@dataclass(frozen=True)
class Asking:
    """What hosts ask: a session; its page begins with `words`, then with the texts that the session proposes."""

    session: "Session"
    words: tuple[str, ...] = ()

    def __call__(self, verb: str, params: Mapping[str, Any], turn: Turn) -> Reply:
        """The reply to a request; ConoscopeError for what is refused."""
        if verb == "export":
            from conoscope.exploring.export import exported

            return exported(self, params, turn)
        reply = self.session.ask(verb, params, turn)
        if verb != "hello" or not self.words:
            return reply
        return replace(reply, data={**reply.data, "texts": [*self.words, *reply.data["texts"]]})

    def close(self) -> None:
        """End what the session does in the background."""
        self.session.close()


def explore(
    sources: Any,
    corpus: Texts | None = None,
    words: str | Sequence[str] = (),
    *,
    device: str | None = None,
    dtype: str | None = None,
    port: int = 0,
    browser: bool = True,
) -> Any:
    """The explorer of models and results: in a notebook a widget; elsewhere None, after a local page was served until Ctrl-C.

    `sources`: a model in any form, a folder that `measure` wrote or a `Result`, or a list of these. `corpus`: texts to choose
    from, by default those that a result was measured on. `words`: a text to begin with, or several. `port` is that of the local
    page, and `browser` says whether a browser is opened.
    """
    notebook = in_notebook()
    if notebook:
        from conoscope.exploring.widget import refuse_without

        refuse_without()
    asking = opened(
        listed(sources), corpus, words=(words,) if isinstance(words, str) else tuple(words), device=device, dtype=dtype
    )
    if notebook:
        from conoscope.exploring.widget import widget

        return widget(asking, asking.close)
    serve_page(asking, port, browse if browser else None)
    return None


def listed(sources: Any) -> list[Any]:
    """The sources as a list; a model with its tokenizer is one source."""
    if not isinstance(sources, list | tuple):
        return [sources]
    from transformers import PreTrainedTokenizerBase

    return [tuple(sources)] if len(sources) == 2 and isinstance(sources[1], PreTrainedTokenizerBase) else list(sources)


def opened(
    sources: Sequence[Any],
    corpus: Texts | None = None,
    *,
    words: Sequence[str] = (),
    device: str | None = None,
    dtype: str | None = None,
    typed: tuple[str, ...] | None = None,
) -> Asking:
    """What is asked of these sources. `typed`: the arguments of the command that opens the same, if they are known."""
    from conoscope.exploring.opening import open_paths
    from conoscope.exploring.session import Session

    refuse_words(words)
    if not sources:
        raise ConoscopeError("nothing to explore; give a model, a run or a folder of results")
    found = open_paths(sources, corpus, device=device, dtype=dtype)
    return Asking(Session(found if typed is None else replace(found, paths=typed)), tuple(words))


def refuse_words(words: Sequence[str]) -> None:
    """ConoscopeError for texts that no page can begin with."""
    for text in words:
        if not text.strip() or len(text) > CHARACTERS:
            raise ConoscopeError(f"a text to begin with has {len(text):,} characters; give from 1 to {CHARACTERS:,}")


def serve_page(asking: Asking, port: int = 0, opens: Callable[[str], object] | None = None) -> None:
    """Serve the page until Ctrl-C: say its address, and hand `opens` one that opens it once."""
    from conoscope.exploring.server import serve

    def ready(address: str, once: str) -> None:
        doing("")
        say(f"explore: {address}")
        sys.stdout.flush()  # who reads it through a pipe waits for it
        say("Ctrl-C ends it; the address holds a token: who has it sees your texts", error=True)
        if opens is not None:
            opens(once)

    try:
        serve(asking, port, ready)
    finally:
        asking.close()


def browse(address: str) -> None:
    """Open an address in a browser, where there is a screen: elsewhere one could be opened in the terminal itself."""
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open_new_tab(address)


def write_page(asking: Asking, path: str | Path) -> Path:
    """Write the page that needs no server, and say how large it is and what is not in it."""
    from conoscope.common.errors import OutputError
    from conoscope.common.writing import write_text
    from conoscope.exploring.export import page_of

    doing("computing what the page shows")
    try:
        turn = Turn(tell=lambda share, what: doing(f"computing the page, {share:.0%}: {what}"))
        page, notes = page_of(asking, turn, PATIENCE)
    finally:
        asking.close()
    try:
        write_text(path, page)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; give --export another file") from error
    for note in notes:
        say(printable(note), error=True)
    return Path(path)


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
