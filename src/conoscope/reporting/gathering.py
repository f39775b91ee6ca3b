"""Gathering: what measure, plausibility, faithfulness and explain wrote, as tables of named runs."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import MeasureError, OutputError, one_of
from conoscope.common.keywords import nearest
from conoscope.common.textfiles import is_there, readable
from conoscope.figures import FIGURES
from conoscope.figures.base import Chart
from conoscope.figures.marks import RUN, shown
from conoscope.figures.words import GRAMMAR, HUMAN
from conoscope.reporting.facts import run_facts
from conoscope.reporting.folders import parts_of
from conoscope.results.result import Result, stored_tables
from conoscope.results.shown import Shown
from conoscope.results.store import TableInfo, read_index, read_provenance

if TYPE_CHECKING:
    import pandas as pd

EXPLANATIONS = TableInfo("How much each word counts, by each map.", "words", 0)
"""What the table of explanations holds."""
SUMS = "tally.json"
"""A file that a folder of measured tables has and others do not."""
GENERIC = ("model", "best", "final", "checkpoint")
"""Names of folders that tell nothing without the folder above."""


@dataclass(frozen=True)
class Run:
    """Tables of one model, where they come from, and what the run is called beside others."""

    name: str
    source: str
    provenance: Mapping[str, Any]
    tables: Mapping[str, "pd.DataFrame"]
    index: Mapping[str, TableInfo] = field(default_factory=dict)
    """What the tables hold, as far as it is known."""
    result: Result | None = None
    """What was measured, with its sums, if it is that."""


Source = Shown | str | Path
"""A result, a folder that was written by measure, plausibility or faithfulness, or a file of explanations."""


def gather(sources: Sequence[Source] | Mapping[str, Source]) -> list[Run]:
    """What each source holds, under a name of its own: the one that it is given, here or as `before=out/`, or one that tells
    the runs apart."""
    sources = [sources] if isinstance(sources, Shown) else sources
    given = sources.items() if isinstance(sources, Mapping) else map(given_name, sources)
    return _named([(name, _run(part)) for name, source in given for part in _parts(source)])


def _parts(source: Source) -> Sequence[Source]:
    """The source itself, or what the folder of a command holds."""
    return parts_of(Path(source)) if isinstance(source, str | Path) else [source]


def given_name(source: Source) -> tuple[str, Source]:
    """The name that a source is given, and the source: `before=out/` is `out/` under the name `before`, where there is nothing at
    `before=out/` itself."""
    if isinstance(source, str) and not (is_there(Path(source)) or is_there(Path(source), folder=True)):
        name, equals, path = source.partition("=")
        if equals and "/" not in name:
            return readable(name), path
    return "", source


class JoinedTables(Mapping[str, "pd.DataFrame"]):
    """The tables of all runs, each with a column `run`, joined when it is asked for; `runs` says what each run is of."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self._names = dict.fromkeys((*(name for run in runs for name in run.tables), "runs"))
        self._joined: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self._names:
            raise KeyError(name)
        if name not in self._joined:
            self._joined[name] = self._facts() if name == "runs" else self._join(name)
        return self._joined[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _join(self, name: str) -> "pd.DataFrame":
        import pandas as pd

        return pd.concat([run.tables[name].assign(run=run.name) for run in self.runs if name in run.tables], ignore_index=True)

    def _facts(self) -> "pd.DataFrame":
        """A row for each run. What is known of a run may stand in several folders: of each fact the first that is told."""
        import pandas as pd

        facts = pd.DataFrame([{**run_facts(run.provenance), "run": run.name} for run in self.runs])
        return facts.groupby("run", sort=False, as_index=False).first()


def figure_of(name: str, sources: Sequence[Source] | Mapping[str, Source]) -> Chart:
    """A figure by name, of what the sources hold."""
    return drawings_of(name, sources)[0]


def drawings_of(name: str, sources: Sequence[Source] | Mapping[str, Source]) -> tuple[Chart, Chart | None]:
    """A figure by name, of what the sources hold, and the same for narrow pages where the figure has a drawing for them."""
    if name not in FIGURES:
        raise MeasureError(f"no figure {name!r}{nearest(name, FIGURES)}; known figures: {one_of(('positions', *FIGURES))}")
    if not sources:
        raise OutputError(f"a figure of {name} needs a folder; give one written by conoscope measure -o")
    figure, tables = FIGURES[name], JoinedTables(gather(sources))
    chart = figure.draw(tables) if figure.fits(tables) else None
    if chart is None:
        raise MeasureError(f"there is nothing to draw {name} from; it needs {one_of(figure.needs)}, there is {one_of(tables)}")
    return chart, None if figure.narrow is None else figure.narrow(tables)


def _run(source: Source) -> Run:
    if not isinstance(source, str | Path):
        result = source if isinstance(source, Result) else None
        return Run("", "", source.provenance, source.tables, source.index, result)
    where = Path(source)
    if is_there(where):
        frame = read_explanations(where)
        models = frame["model"].dropna().unique()
        of = {"model": {"name": models[0]}} if len(models) == 1 else {}
        return Run("", readable(str(where)), of, {"explanations": frame.drop(columns="model")}, {"explanations": EXPLANATIONS})
    provenance, tables = read_provenance(where), stored_tables(where)
    result = Result.load(where) if is_there(where / SUMS) else None
    return Run("", readable(str(where)), provenance, tables, read_index(where) or {}, result)


def read_explanations(path: Path) -> "pd.DataFrame":
    """A row for each word and map of a file written by conoscope explain, with the example, its label and the model's answer.

    What was marked is a map of its own: `human` where people marked it, `grammar` where the grammar of the corpus did.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    number = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                rows += _words_of(json.loads(line)) if line.strip() else []
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        at = f", line {number}" if number else ""
        raise OutputError(
            f"no explanations can be read from {path}{at}: {error}; expected a file written by conoscope explain -o"
        ) from error
    return pd.DataFrame(rows, columns=["model", "example", "place", "word", "map", "value", "label", "predicted"])


def _words_of(record: Any) -> list[dict[str, Any]]:
    said = {
        "model": record.get("model"),
        "example": str(record["id"]),
        "label": record["label"],
        "predicted": record["predicted"],
    }
    marker = GRAMMAR if record.get("marked_by") == GRAMMAR else HUMAN
    marked = {marker: record["rationale"]} if record.get("rationale") else {}
    return [
        {**said, "place": place, "word": word, "map": name, "value": None if score is None else float(score)}
        for name, scores in {**record["maps"], **marked}.items()
        for place, (word, score) in enumerate(zip(record["words"], scores, strict=True))
    ]


def _named(runs: list[tuple[str, Run]]) -> list[Run]:
    """Each run under the name that it was given, else under the shortest kind of name that tells all apart: the model's, the
    model's with the corpus's, or the folder. What is of one model stands under one name where tables do not clash."""
    for given in dict.fromkeys(name for name, _ in runs if name):
        own = [run for name, run in runs if name == given]
        if not _apart([given] * len(own), own):
            raise OutputError(
                f"the name {given!r} is given to more than one run; give each its own, as in before=out-1/ after=out-2/"
            )
    kinds: tuple[Callable[[Run], str], ...] = (_model_name, _model_on_corpus, lambda run: run.source or _model_on_corpus(run))
    for kind in kinds:
        names = [name or kind(run) for name, run in runs]
        if _apart(names, [run for _, run in runs]):
            break
    else:
        names = [f"{number}: {name}" for number, name in enumerate(names, 1)]
    short = shown(names, RUN)
    return [replace(run, name=short[name]) for name, (_, run) in zip(names, runs, strict=True)]


def _apart(names: Sequence[str], runs: Sequence[Run]) -> bool:
    """Whether what stands under one name is of one model, one corpus and one vector of a text, as far as that is known, and no
    table is there twice."""
    told: dict[tuple[str, str], Any] = {}
    for name, run in zip(names, runs, strict=True):
        model, corpus = run.provenance.get("model", {}), run.provenance.get("corpus", {})
        facts = {
            "model": model.get("hash"),
            "corpus": (corpus.get("name"), corpus.get("split")) if corpus.get("name") else None,
            "vector": (run.provenance.get("pool") or {}).get("vector"),
        }
        if any(fact is not None and told.setdefault((name, what), fact) != fact for what, fact in facts.items()):
            return False
        if any(told.setdefault((name, f"table {table}"), run) is not run for table in run.tables):
            return False
    return True


def _model_name(run: Run) -> str:
    if "model" not in run.provenance:
        return Path(run.source).stem
    name = str(run.provenance["model"]["name"])
    parts = Path(name).parts or (name or "model",)
    return "/".join(parts[-2:] if parts[-1].partition("-")[0] in GENERIC else parts[-1:])


def _model_on_corpus(run: Run) -> str:
    corpus = run.provenance.get("corpus", {})
    on = ":".join(part for part in (corpus.get("name"), corpus.get("split")) if part)
    return f"{_model_name(run)} on {on}" if on else _model_name(run)
