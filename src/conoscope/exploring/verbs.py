"""Verbs: what a page can ask, by name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conoscope import __version__
from conoscope.exploring import corpus_verbs
from conoscope.exploring.deletion import deletion
from conoscope.exploring.replies import Handler, Reply, Turn
from conoscope.exploring.requests import CHARACTERS
from conoscope.exploring.runs import answer, head, run
from conoscope.exploring.streams import stream
from conoscope.exploring.warm import TOKENS
from conoscope.exploring.word_scores import methods, words

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

TEXTS = (
    "The soup was not good, but the waiter was kind.",
    "I expected little and was delighted from the first minute to the last.",
    "The keys to the cabinet on the table are lost.",
)
"""Texts to begin with."""


def hello(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """What is open, and what can be asked of it."""
    session.shelf.start()
    models = []
    for number, warm in enumerate(session.models):
        turn.progress(number / len(session.models), f"finding how {warm.loaded.name} is wired")
        models.append(warm.described)
    return Reply(
        {
            "version": __version__,
            "models": models,
            "methods": methods(),
            "results": session.shelf.described(),
            "corpus": session.shelf.corpus,
            "limits": {"characters": CHARACTERS, "tokens": TOKENS},
            "texts": list(TEXTS),
            "paths": list(session.opened.paths),
            "notes": list(session.opened.notes),
            "filling": corpus_verbs.filling_of(session),
        }
    )


VERBS: dict[str, Handler] = {
    "hello": hello,
    "run": run,
    "head": head,
    "answer": answer,
    "words": words,
    "deletion": deletion,
    "stream": stream,
    **corpus_verbs.VERBS,
}
"""Every verb and what answers it."""
