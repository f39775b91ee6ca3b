"""User errors: the exception tree.

ConoscopeError                 every error a user can cause; the command line prints it and exits with 2
├── DataError                  a file of texts or word vectors is missing or cannot be read
│   └── CorpusError            a corpus, split, column, row or label is missing or cannot be used
├── ModelError                 a model cannot be loaded, is broken, or has other labels than the corpus
│   ├── LabelsDifferError      a corpus has labels that the model does not have
│   ├── CaptureError           a model's attention cannot be captured, or it lacks the requested site
│   └── OverflowedError        a model computes NaN, infinity or numbers too large to multiply
├── MeasureError               an unknown measure, map or option, or a measure without data
│   └── NotMeasuredError       a table that a result does not have; also a KeyError
└── OutputError                a folder cannot be written or read, or results do not belong together

Every message is one line: what happened, what was given, what was expected, what to do. The exception itself shortens long user
text, so every message is short.
"""

import re
from collections.abc import Iterable

LONGEST, MOST = 60, 40
WORD, MESSAGE = 300, 1500
"""Maximum length in characters of one unbroken piece of a message (a path, a name), and of the whole message."""


class ConoscopeError(Exception):
    """Base class of all errors that a user can cause."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(str(message)))


class DataError(ConoscopeError):
    """A file of texts or word vectors is missing or cannot be read."""


class CorpusError(DataError):
    """A corpus, split, column, row or label is missing or cannot be used."""


class ModelError(ConoscopeError):
    """A model cannot be loaded, is broken, or has other labels than the corpus."""


class LabelsDifferError(ModelError):
    """A corpus has labels that the model does not have."""


class CaptureError(ModelError):
    """A model's attention cannot be captured, or it lacks the requested site."""


class OverflowedError(ModelError):
    """A model computes NaN, infinity or numbers too large to multiply: any measure of it would be meaningless."""

    @classmethod
    def of(cls, model: str, text: str, dtype: object) -> "OverflowedError":
        """The error for this model, text and precision; it suggests the next wider precision."""
        precision = str(dtype).removeprefix("torch.")
        wider = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}.get(precision)
        advice = "give another checkpoint" if wider is None else f"try --dtype {wider}, or another checkpoint"
        return cls(f"{model} answers {text} with NaN or infinity in torch.{precision}; {advice}")


class MeasureError(ConoscopeError):
    """An unknown measure, map or option, or a measure without data."""


class NotMeasuredError(MeasureError, KeyError):
    """A table that a result does not have, or a layer that a trace does not have; also a KeyError, as both are mappings."""

    __str__ = Exception.__str__  # a KeyError quotes its message


class OutputError(ConoscopeError):
    """A folder cannot be written or read, or results do not belong together."""


def shortened(message: str) -> str:
    """The message with long user text shortened: first every unbroken piece, then the middle of the whole message.

    The beginning says what happened and the end says what to do, so both are kept.
    """
    pieces = re.sub(rf"\S{{{WORD + 1},}}", lambda match: _without_middle(match.group(), WORD), message)
    return _without_middle(pieces, MESSAGE)


def _without_middle(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = (longest - len(f"… ({len(text)} characters) …")) // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"


def one_of(known: Iterable[object]) -> str:
    """The names in `known`, sorted and joined, for a one-line message; long names and long lists are cut."""
    return listed(sorted(" ".join(str(name).split()) for name in known))


def listed(known: Iterable[object]) -> str:
    """The names in `known`, in their order and joined, for a one-line message; long names and long lists are cut."""
    names = [" ".join(str(name).split()) for name in known]
    shown = [name if len(name) <= LONGEST else f"{name[:LONGEST]}…" for name in names[:MOST]]
    return ", ".join(shown if len(names) <= MOST else [*shown, f"… ({len(names)} in all)"])
