"""Conoscope shows the geometry of self-attention in transformer text classifiers.

>>> import conoscope as cs
>>> result = cs.measure("runs/pure", "bistro:test", "sim", limit=100)
>>> result["sim"]
>>> cs.explain("runs/pure", "the soup was not good")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from conoscope.capture.loading import LoadedModel, load_model
    from conoscope.capture.recorder import Capture, traces_of, verify
    from conoscope.capture.text_trace import trace
    from conoscope.causes.ablation import ablate
    from conoscope.causes.attribution import attribute
    from conoscope.causes.patch import patch
    from conoscope.causes.steer import steer
    from conoscope.common.errors import ConoscopeError
    from conoscope.corpora import Columns, Corpus, Example, load_corpus
    from conoscope.corpora.word_vectors import load_vectors
    from conoscope.explaining.faithfulness import faithfulness
    from conoscope.explaining.plausibility import plausibility
    from conoscope.explaining.records import explain
    from conoscope.exploring.hosts import explore
    from conoscope.measures.tally import Tally
    from conoscope.measuring.pipeline import Options, measure, merge
    from conoscope.reporting import report
    from conoscope.results.result import Result
    from conoscope.training.comparison import compare
    from conoscope.training.geometry_callback import GeometryCallback
    from conoscope.training.trainer import Training, train

_HOME = {
    **dict.fromkeys(("Capture", "traces_of", "verify"), "capture.recorder"),
    **dict.fromkeys(("Columns", "Corpus", "Example", "load_corpus"), "corpora"),
    **dict.fromkeys(("LoadedModel", "load_model"), "capture.loading"),
    **dict.fromkeys(("explain", "faithfulness", "plausibility"), "explaining"),
    **dict.fromkeys(("Options", "measure", "merge"), "measuring.pipeline"),
    **dict.fromkeys(("Training", "train"), "training.trainer"),
    "ConoscopeError": "common.errors",
    "GeometryCallback": "training.geometry_callback",
    "Result": "results.result",
    "Tally": "measures.tally",
    "ablate": "causes.ablation",
    "attribute": "causes.attribution",
    "patch": "causes.patch",
    "steer": "causes.steer",
    "compare": "training.comparison",
    "explore": "exploring.hosts",
    "load_vectors": "corpora.word_vectors",
    "report": "reporting",
    "trace": "capture.text_trace",
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
    "ablate",
    "attribute",
    "compare",
    "explain",
    "explore",
    "faithfulness",
    "load_corpus",
    "load_model",
    "load_vectors",
    "measure",
    "merge",
    "patch",
    "plausibility",
    "report",
    "steer",
    "trace",
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
