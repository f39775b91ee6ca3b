"""open_paths(): the models, results and corpus that the explorer shows, from paths or from what a program holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import ConoscopeError, OutputError, one_of
from conoscope.common.textfiles import is_there, readable
from conoscope.corpora import Columns, Corpus, Texts, corpus_of
from conoscope.exploring.reopening import corpus_again, model_folder
from conoscope.reporting.folders import parts_of
from conoscope.reporting.gathering import GENERIC
from conoscope.results.result import Result, sound_provenance
from conoscope.results.store import measured

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
    what is in it. A results folder also opens its model and corpus, if they can be found again. `corpus` replaces the latter.
    """
    opening = _Opening(device, dtype)
    texts = None if corpus is None else corpus_of(corpus, columns)
    for source in sources:
        opening.add(source)
    results = opening.with_models()
    if texts is None:
        texts = opening.corpus()
    paths = tuple(readable(str(source)) for source in sources if isinstance(source, str | Path))
    return Opened(tuple(opening.models), results, texts, (*paths, *_corpus_options(corpus, columns)), tuple(opening.notes))


def _corpus_options(corpus: Texts | None, columns: Columns | None) -> list[str]:
    """The options that name a corpus; none for one that only a program holds."""
    if not isinstance(corpus, str | Path):
        return []
    named = {name: getattr(columns, name) for name in ("text", "label", "pair", "rationale")} if columns is not None else {}
    chosen = {name: value for name, value in named.items() if value != getattr(Columns(), name)}
    options = [part for name, value in chosen.items() for part in (f"--{name}", str(value))]
    names = ["--label-names", ",".join(columns.label_names)] if columns is not None and columns.label_names else []
    return ["--corpus", readable(str(corpus)), *options, *names]


@dataclass
class _Opening:
    """What is open so far."""

    device: str | None
    dtype: str | None
    models: "list[LoadedModel]" = field(default_factory=list)
    results: list[tuple[Result, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _digests: dict[int, str] = field(default_factory=dict)

    def add(self, source: Any) -> None:
        """Open a source."""
        if isinstance(source, Result):
            self.results.append((source, ""))
        elif not isinstance(source, str | Path) or is_model_named(source):
            self.models.append(self._loaded(source))
        else:
            self.results += [(Result(part, sound_provenance(part)), readable(str(part))) for part in results_in(Path(source))]

    def with_models(self) -> tuple[OpenResult, ...]:
        """The results under names of their own; the models that they are of are opened, if they are found."""
        found: list[OpenResult] = []
        for result, path in self.results:
            name = short_name(result.provenance)
            names = {one.name for one in found}
            free = next(
                each for number in range(len(names) + 1) if (each := f"{name} ({number + 1})" if number else name) not in names
            )
            found.append(OpenResult(free, result, self._model_of(result.provenance, path), path))
        return tuple(found)

    def corpus(self) -> Corpus | None:
        """The corpus of the first result whose texts can be read again."""
        for result, path in self.results:
            try:
                again = corpus_again(result.provenance, path)
            except ConoscopeError as error:
                self.notes.append(
                    f"the texts of {measured(result.provenance)} cannot be read again: {error}; name them with --corpus"
                )
                continue
            if again is not None:
                return again
        return None

    def _model_of(self, provenance: Mapping[str, Any], path: str) -> int | None:
        """The index of the model that a result is of, by the hash of its weights; None if it cannot be opened."""
        wanted = provenance["model"].get("hash")
        known = (number for number in range(len(self.models)) if self._digest(number) == wanted)
        if (number := next(known, None)) is not None:
            return number
        name = readable(str(provenance["model"].get("name", "")))
        folder = model_folder(name, path)
        if folder is None:
            self.notes.append(
                f"the model {name} is not where it was; give its folder too, as in conoscope explore MODEL {path or 'OUT'}"
            )
            return None
        try:
            self.models.append(self._loaded(folder))
        except ConoscopeError as error:
            self.notes.append(f"the model {name} cannot be opened: {error}")
            return None
        if self._digest(len(self.models) - 1) == wanted:
            return len(self.models) - 1
        self.models.pop()
        self._digests.pop(len(self.models), None)
        self.notes.append(f"the model in {folder} is another one than that of {path or 'the result'}; measure it again")
        return None

    def _digest(self, number: int) -> str:
        if number not in self._digests:
            self._digests[number] = self.models[number].digest()
        return self._digests[number]

    def _loaded(self, source: Any) -> "LoadedModel":
        from conoscope.capture.loading import load_and_tell

        return load_and_tell(source, self.device, self.dtype)


def short_name(provenance: Mapping[str, Any]) -> str:
    """What was measured, in which the model's path is short."""
    return readable(measured({**provenance, "model": {"name": short_path(str(provenance["model"].get("name", "")))}}))


def short_path(name: str) -> str:
    """The last part of a path, or two where the last says nothing."""
    parts = Path(name).parts or (name,)
    return "/".join(parts[-2:] if parts[-1].partition("-")[0] in GENERIC else parts[-1:])


def is_model_named(source: str | Path) -> bool:
    """Whether a path or name is to be loaded as a model: a folder that holds one, or no folder and no file at all."""
    path = Path(source)
    if is_there(path):
        raise OutputError(f"{source} is a file; give a folder of a model or of results, and texts with --corpus {source}")
    return is_there(path / "config.json") or not is_there(path, folder=True)


def results_in(folder: Path) -> list[Path]:
    """The results folders in a folder without a model; OutputError of one line if there are none."""
    found = [part for part in parts_of(folder) if is_there(part / "provenance.json")]
    if found:
        return found
    models = [path.name for path in sorted(folder.iterdir()) if is_there(path / "config.json")]
    if models:
        raise OutputError(
            f"{folder} holds models in folders of their own, {one_of(models)}; name one, as in {folder / models[0]}"
        )
    raise OutputError(f"{folder} holds neither a model nor results; give a folder of save_pretrained, or one that measure wrote")
