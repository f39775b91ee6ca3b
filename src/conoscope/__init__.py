"""Conoscope shows the geometry of self-attention in transformer text classifiers.

>>> import conoscope as cs
>>> result = cs.measure("runs/pure", "bistro:test", ["sim"])
>>> result["sim"]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from conoscope.callback import GeometryCallback
    from conoscope.capture import Capture, traces_of, verify
    from conoscope.corpora import Columns, Corpus, Example, load_corpus
    from conoscope.errors import ConoscopeError
    from conoscope.loading import LoadedModel, load_model
    from conoscope.pipeline import Options, measure, merge
    from conoscope.reporting import report
    from conoscope.result import Result
    from conoscope.tally import Tally
    from conoscope.training import Training, train
    from conoscope.vectors import load_vectors

_HOME = {
    **dict.fromkeys(("Capture", "traces_of", "verify"), "capture"),
    **dict.fromkeys(("Columns", "Corpus", "Example", "load_corpus"), "corpora"),
    **dict.fromkeys(("LoadedModel", "load_model"), "loading"),
    **dict.fromkeys(("Options", "measure", "merge"), "pipeline"),
    **dict.fromkeys(("Training", "train"), "training"),
    "ConoscopeError": "errors",
    "GeometryCallback": "callback",
    "Result": "result",
    "Tally": "tally",
    "load_vectors": "vectors",
    "report": "reporting",
}

__all__ = [
    "Capture",
    "Columns",
    "ConoscopeError",
    "Corpus",
    "Example",
    "GeometryCallback",
    "LoadedModel",
    "Options",
    "Result",
    "Tally",
    "Training",
    "load_corpus",
    "load_model",
    "load_vectors",
    "measure",
    "merge",
    "report",
    "traces_of",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Heavy names are imported on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'conoscope' has no attribute {name!r}")
    return getattr(import_module(f"conoscope.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
