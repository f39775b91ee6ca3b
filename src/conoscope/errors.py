"""What can go wrong through no fault of ours, and what to do about it.

ConoscopeError                 every error a user can cause; the command line prints it and exits with 2
├── CorpusError                a corpus, split, column, row or label that is not there or cannot be read
├── ModelError                 a model that cannot be loaded, is broken, or has labels other than the corpus
│   └── CaptureError           a model whose attention cannot be seen, or a site that it does not have
├── MeasureError               an unknown measure or option, or a measure with nothing to measure
└── OutputError                a folder that cannot be written or read, or results that do not go together

Every message is one line: what happened, what was given, what was expected, what to do.
"""

from collections.abc import Iterable


class ConoscopeError(Exception):
    """Every error that a user of conoscope can cause."""


class CorpusError(ConoscopeError):
    """A corpus, split, column, row or label that is not there or cannot be read."""


class ModelError(ConoscopeError):
    """A model that cannot be loaded, is broken, or has labels other than the corpus."""


class CaptureError(ModelError):
    """A model whose attention cannot be seen, or a site that it does not have."""


class MeasureError(ConoscopeError):
    """An unknown measure or option, or a measure with nothing to measure."""


class OutputError(ConoscopeError):
    """A folder that cannot be written or read, or results that do not go together."""


def one_of(known: Iterable[object]) -> str:
    """The names in `known`, sorted and joined, for the end of a message."""
    return ", ".join(sorted(str(name) for name in known))
