"""What can go wrong through no fault of ours, and what to do about it.

ConoscopeError                 every error a user can cause; the command line prints it and exits with 2
├── DataError                  a file of texts or of word vectors that is not there or cannot be read
│   └── CorpusError            a corpus, split, column, row or label that is not there or cannot be used
├── ModelError                 a model that cannot be loaded, is broken, or has labels other than the corpus
│   ├── CaptureError           a model whose attention cannot be seen, or a site that it does not have
│   └── OverflowedError        a model that leaves NaN, infinity or numbers too large to be multiplied
├── MeasureError               an unknown measure, map or option, or a measure with nothing to measure
└── OutputError                a folder that cannot be written or read, or results that do not go together

Every message is one line: what happened, what was given, what was expected, what to do. Long user text in it is cut by the
exception itself, so that no message can forget it.
"""

import re
from collections.abc import Iterable

LONGEST, MOST = 60, 40
WORD, MESSAGE = 300, 1500
"""The longest unbroken piece of a message (a path, a name), and the longest message, in characters."""


class ConoscopeError(Exception):
    """Every error that a user of conoscope can cause."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(str(message)))


class DataError(ConoscopeError):
    """A file of texts or of word vectors that is not there or cannot be read."""


class CorpusError(DataError):
    """A corpus, split, column, row or label that is not there or cannot be used."""


class ModelError(ConoscopeError):
    """A model that cannot be loaded, is broken, or has labels other than the corpus."""


class CaptureError(ModelError):
    """A model whose attention cannot be seen, or a site that it does not have."""


class OverflowedError(ModelError):
    """A model that leaves NaN, infinity or numbers too large to be multiplied: what is read from it would be made up."""

    @classmethod
    def of(cls, model: str, text: str, dtype: object) -> "OverflowedError":
        """Of a model that answers a text so in this precision, with the next that has more room."""
        precision = str(dtype).removeprefix("torch.")
        wider = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}.get(precision)
        advice = "give another checkpoint" if wider is None else f"try --dtype {wider}, or another checkpoint"
        return cls(f"{model} answers {text} with NaN or infinity in torch.{precision}; {advice}")


class MeasureError(ConoscopeError):
    """An unknown measure, map or option, or a measure with nothing to measure."""


class OutputError(ConoscopeError):
    """A folder that cannot be written or read, or results that do not go together."""


def shortened(message: str) -> str:
    """The message with long user text cut: first every unbroken piece, then the middle of what is still too long.

    The beginning says what happened and the end says what to do, so both are kept.
    """
    pieces = re.sub(rf"\S{{{WORD + 1},}}", lambda found: _without_middle(found.group(), WORD), message)
    return _without_middle(pieces, MESSAGE)


def _without_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = (longest - len(f"… ({len(text)} characters) …")) // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"


def one_of(known: Iterable[object]) -> str:
    """The names in `known`, sorted and joined, for a message of one line: long names are cut, and so are long lists."""
    names = sorted(" ".join(str(name).split()) for name in known)
    shown = [name if len(name) <= LONGEST else f"{name[:LONGEST]}…" for name in names[:MOST]]
    return ", ".join(shown if len(names) <= MOST else [*shown, f"… ({len(names)} in all)"])
