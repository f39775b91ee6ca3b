"""open_paths(): the models, results and corpus that the explorer shows, from paths or from what a program holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from conoscope.corpora import Columns, Corpus, Texts
from conoscope.results.result import Result

if TYPE_CHECKING:
    from conoscope.capture.loading import LoadedModel, ModelSource


@dataclass(frozen=True)
class OpenResult:
    """A result with its short name, the index of its model in `Opened.models` (None if that model is not open), and the path that
    it was opened from (empty if it was in memory)."""

    name: str
    result: Result
    model: int | None = None
    path: str = ""


@dataclass(frozen=True)
class Opened:
    """The loaded models, the results, and the corpus, if there is one.

    `paths`: the arguments of a command that opens the same. `notes`: one line for everything that was named and is not there.
    """

    models: tuple["LoadedModel", ...]
    results: tuple[OpenResult, ...]
    corpus: Corpus | None
    paths: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def open_paths(
    sources: "Sequence[str | Path | Result | ModelSource]",
    corpus: Texts | None = None,
    columns: Columns | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Opened:
    """The models, results and corpus of some sources.

    A source is a model (a folder, a Hub id, or one in memory), a training run, or a results folder (or a Result), recognised by
    what is in it. A results folder also opens its model and corpus, if they can be found again. `corpus` replaces that of the results.
    """
    raise NotImplementedError
