"""Result: the tables of a measurement, with their sums and provenance."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import OutputError, one_of
from conoscope.common.markup import cut
from conoscope.common.sealing import is_sealed
from conoscope.common.terminal import printable
from conoscope.common.writing import as_output_error
from conoscope.results.merging import joined, shard_number
from conoscope.results.shown import Shown, explorer, notebook
from conoscope.results.store import (
    INDEX,
    StoredTables,
    TableInfo,
    claim,
    measured,
    missing_shards,
    read_index,
    read_parquet,
    read_provenance,
    write_provenance,
    write_tables,
)

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.measures.tally import Tally
    from conoscope.results.differences import Differences

SHOWN = 16
"""How many rows of a table `summary` shows."""
NAMED = 6
"""How many tables the one-line form of a result names."""


class Result(Shown):
    """Tables by measure, as a mapping: `result["sim"]` is a DataFrame in long form.

    `findings` says in sentences what is worth knowing, `plot("sim")` draws a figure, `compare(other)` gives differences, and
    `report(path)` writes one page of all.

    A result that was just measured holds its sums (`tally`) and computes its tables from them. A loaded result reads each table
    from its file on first access; it loads its sums, which needs torch, only to be merged or to recompute tables.
    """

    def __init__(self, sums: "Tally | Path", provenance: Mapping[str, Any]) -> None:
        """`sums`: the tally, or the folder of a saved result."""
        self._sums, self.provenance = sums, provenance

    @cached_property
    def tally(self) -> "Tally":
        """The sums, loaded on first access."""
        from conoscope.measures.tally_files import load_tally

        return load_tally(self._sums) if isinstance(self._sums, Path) else self._sums

    def sums_of(self, quantity: str) -> "Tally":
        """The sums of one quantity; those of a saved result are read without all others."""
        from conoscope.measures.tally_files import load_tally, of_quantity

        return load_tally(self._sums, quantity) if isinstance(self._sums, Path) else of_quantity(self._sums, quantity)

    @cached_property
    def tables(self) -> "Mapping[str, pd.DataFrame]":
        """Every table by name; for a shard of a corpus, only those that are not empty."""
        return stored_tables(self._sums) if isinstance(self._sums, Path) else _from_sums().all_tables(self._sums, self.provenance)

    @cached_property
    def index(self) -> Mapping[str, TableInfo]:
        """The description of each table, by name."""
        stored = read_index(self._sums) if isinstance(self._sums, Path) else None
        if stored is not None:
            return stored
        every = _from_sums().index_of(self.provenance["measures"])
        return {name: every[name] for name in self.tables}

    @cached_property
    def findings(self) -> list[str]:
        """What is worth knowing of the model, in sentences with their numbers and controls."""
        found: list[str] = notebook().findings_of(self.tables, self.provenance)
        return found

    def explore(self, corpus: Any = None, words: str | Sequence[str] = (), **options: Any) -> Any:
        """This result with its model and texts, live: a widget in a notebook; elsewhere None, after a local page was served.

        The parameters are those of `conoscope.explore`.
        """
        return explorer().explore(self, corpus, words, **options)

    def compare(self, other: "Result | str | Path", names: Sequence[str] | None = None) -> "Differences":
        """The other result minus this one, as in before.compare(after): number by number, with 95 % intervals, paired where both
        read the same texts and the value is a mean over them.

        `other`: a result, or the folder of a saved one. `names`: what this one and the other are called in sentences, figures and
        reports, as in ("before", "after").
        """
        from conoscope.results.differences import Differences

        return Differences(self, Result.load(other) if isinstance(other, str | Path) else other, names)

    def __add__(self, other: "Result") -> "Result":
        # Check provenance first: sums of different models need not have the same shape.
        whole = joined(self.provenance, other.provenance)
        return Result(self.tally + other.tally, whole)

    def save(self, folder: str | Path) -> Path:
        """Write each table as parquet and CSV, their index, provenance.json, and the sums that `merge` adds up."""
        from conoscope.measures.tally_files import save_tally

        where = claim(folder, self.provenance)
        with as_output_error(where):
            # Provenance first: it says whose folder this is if the rest is interrupted.
            write_provenance(where, self.provenance)
            save_tally(self.tally, where)
            write_tables(where, self.tables, self.provenance, self.index)
        return where

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """The result that `save` wrote to a folder; provenance is read now, tables and sums on first access."""
        where = Path(folder)
        if not (where / "tally.json").is_file():
            raise OutputError(
                f"no results can be read from {where}: it holds no tally.json; expected a folder written by conoscope measure -o"
            )
        return cls(where, sound_provenance(where))

    @property
    def missing(self) -> list[str]:
        """The shards of the corpus that are not in this result."""
        return missing_shards(self.provenance)

    @property
    def first_shard(self) -> int:
        """The smallest shard number in this result."""
        return min(map(shard_number, self.provenance["shards"]))

    def summary(self, names: Sequence[str] | None = None) -> str:
        """Tables as text, by default the first of each measure: a column for each layer; means over heads, and whole vectors."""
        first: dict[tuple[str, str], str] = {}
        for name in self.tables:
            table, _, options = name.partition(":")
            first.setdefault((table.partition(".")[0], options), name)
        chosen = names or list(first.values())
        return "\n\n".join(_summarized(name, self[name]) for name in chosen)

    def __repr__(self) -> str:
        """The model, the corpus and the first tables, in one line."""
        names = [*islice(self.tables, NAMED)]
        more = f", … ({len(self)} tables)" if len(self) > NAMED else ""
        return printable(f"<Result of {measured(self.provenance)}: {', '.join(names) or 'no tables'}{more}>")

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        html: str = notebook().shown(self.tables, self.provenance)
        return html


def sound_provenance(folder: Path) -> dict[str, Any]:
    """The content of provenance.json; OutputError if it lacks what every measurement has, or if names in it are no names."""
    provenance = read_provenance(folder)
    model, corpus, seen = (provenance[part] for part in ("model", "corpus", "seen"))
    sound = {
        "the name of the model": isinstance(model.get("name"), str),
        "the name of the corpus": isinstance(corpus.get("name"), str | None),
        "the split of the corpus": isinstance(corpus.get("split"), str | None),
        "the labels of the model": _are_names(model.get("labels")),
        "the labels of the corpus": _are_names(corpus.get("labels")),
        "how many texts were seen": isinstance(seen.get("examples"), int),
        "how many texts were truncated": isinstance(seen.get("truncated"), int),
        "its shards": bool(provenance["shards"]),
        "its measures": _are_names(provenance["measures"]),
    }
    if wrong := [what for what, holds in sound.items() if not holds]:
        raise OutputError(f"{folder / 'provenance.json'} does not say {one_of(wrong)}; measure again, or take a copy")
    return provenance


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def stored_tables(folder: Path) -> "Mapping[str, pd.DataFrame]":
    """The tables of a folder, each read on first access.

    If the folder has only sums, the tables are computed from these, which needs torch, and written if the folder is writable.
    """
    index = read_index(folder)
    if index is not None:
        return StoredTables(folder, index)
    if not (folder / "tally.json").is_file():
        return _unlisted_tables(folder)
    sums = _from_sums(folder)
    provenance = read_provenance(folder)
    tables: dict[str, pd.DataFrame] = sums.load_tables(folder)
    with suppress(OSError):  # the tables of a read-only folder are computed from its sums each time
        write_tables(folder, tables, provenance, sums.index_of(provenance["measures"]))
    return tables


def _unlisted_tables(folder: Path) -> "dict[str, pd.DataFrame]":
    """The tables of a folder of an earlier version without an index, by file name."""
    if is_sealed(folder / "provenance.json"):
        raise OutputError(f"{folder} holds no {INDEX}: the run that writes it was stopped; give its command again")
    tables = {path.stem: read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
    if not tables:
        raise OutputError(
            f"{folder} holds no tables; expected a folder written by conoscope measure, plausibility or faithfulness"
        )
    return tables


def _from_sums(folder: Path | None = None) -> Any:
    """The module that computes tables from sums, imported only when needed."""
    try:
        from conoscope.results import from_sums
    except ModuleNotFoundError as error:
        where = "this result" if folder is None else str(folder)
        raise OutputError(
            f"{where} holds sums and no tables, and to read tables from sums needs {error.name}, which is not installed; "
            "install it, or measure again with this version, which writes the tables"
        ) from error
    return from_sums


def _summarized(name: str, frame: "pd.DataFrame") -> str:
    """A table as text: one line for each block, a column for each layer; the mean over heads if the table is by head."""
    columns = list(frame.columns)
    keys = ["site", *columns[columns.index("head") + 1 : columns.index("value")]]
    of = frame["head"].isna().map({True: "whole", False: "mean over heads"})
    wide = frame.assign(of=of).groupby([*keys, "of", "layer"], sort=False)["value"].mean().unstack("layer").sort_index(axis=1)
    shown = wide.head(SHOWN).rename(index=lambda name: cut(name) if isinstance(name, str) else name)
    more = f"\n... and {len(wide) - SHOWN} more rows" if len(wide) > SHOWN else ""
    lines = shown.to_string(float_format="{:.3f}".format, na_rep="").split("\n")
    return "\n".join((f"{name}, by layer", *map(printable, lines))) + more
