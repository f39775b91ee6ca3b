"""Result: what was measured, as tables, with the sums they were read from and where they came from."""

import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from conoscope import __version__
from conoscope.errors import MeasureError, OutputError, one_of
from conoscope.joining import differences, joined, shard_number
from conoscope.kinds import KINDS
from conoscope.markup import cut
from conoscope.measures import Part, Reading, Request, Table, request
from conoscope.showing import measured, shown
from conoscope.statistics import Statistic
from conoscope.tally import Tally
from conoscope.terminal import printable
from conoscope.writing import BESIDE, atomic, make_folder, write_text

if TYPE_CHECKING:
    import pandas as pd

CLASS_COLUMNS = ("class", "gold", "predicted", "other_class")
"""The columns that hold the number of a class, and show its name."""
SHOWN = 16
"""How many rows of a table `summary` shows."""
PARTIAL = ("partial", "partial.new")
"""What a run that was stopped leaves in its folder."""


@dataclass(frozen=True, repr=False)
class Result:
    """Tables by measure: `result["sim"]` is a DataFrame in long form."""

    tally: Tally
    provenance: Mapping[str, Any]

    @cached_property
    def tables(self) -> dict[str, "pd.DataFrame"]:
        """Every measure's table, read from the sums; of a part of a corpus, those that have something to say."""
        return dict(self._tables())

    def _tables(self) -> Iterator[tuple[str, "pd.DataFrame"]]:
        """What was asked for by name must be there; of a part of a corpus, or of every measure, what has something to say."""
        classes = self.provenance["model"]["labels"] or self.provenance["corpus"]["labels"]
        kinds = (*KINDS, *self.provenance["options"].get("kinds", {}))
        for wanted in map(request, self.provenance["measures"]):
            found = tables_of(wanted, self.tally, classes, kinds)
            if not found and not (self.missing or self.provenance["every"]):
                raise _nothing(wanted)
            yield from found.items()

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self.tables:
            raise MeasureError(f"{name!r} was not measured; measured: {one_of(self.tables)}")
        return self.tables[name]

    def __add__(self, other: "Result") -> "Result":
        # First, whether they go together at all: sums of different models need not have the same shape.
        whole = joined(self.provenance, other.provenance)
        return Result(self.tally + other.tally, whole)

    def save(self, folder: str | Path) -> Path:
        """Write each table as parquet and CSV, provenance.json, and the sums that `merge` adds up."""
        where = claim(folder, self.provenance)
        try:
            # Provenance first: it says whose the folder is, should the rest be cut short.
            write_provenance(where, self.provenance)
            self.tally.save(where)
            write_tables(where, self.tables, self.provenance)
        except OSError as error:
            raise OutputError(f"cannot write to {where}: {error.strerror or error}; give -o another folder") from error
        return where

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """Read what `save` wrote."""
        where = Path(folder)
        tally = Tally.load(where)
        return cls(tally, read_provenance(where))

    @property
    def missing(self) -> list[str]:
        """The shards of the corpus that are not in it."""
        return missing_shards(self.provenance)

    @property
    def first_shard(self) -> int:
        """The smallest number of the shards that are in it."""
        return min(map(shard_number, self.provenance["shards"]))

    def summary(self, names: Sequence[str] | None = None) -> str:
        """Some tables as text, the first that each measure has by default: by layer, means over heads beside whole vectors."""
        first: dict[tuple[str, str], str] = {}
        for name in self.tables:
            table, _, options = name.partition(":")
            first.setdefault((table.partition(".")[0], options), name)
        chosen = names or list(first.values())
        return "\n\n".join(_summarized(name, self[name]) for name in chosen)

    def __repr__(self) -> str:
        """What was measured, in a line."""
        return printable(f"<Result of {measured(self.provenance)}: {', '.join(self.tables) or 'no tables'}>")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return shown(self.tables, self.provenance)


def missing_shards(provenance: Mapping[str, Any]) -> list[str]:
    """The shards of the corpus that a result is not of."""
    count = provenance["shards"][0].partition("/")[2]
    return [shard for number in range(int(count)) if (shard := f"{number + 1}/{count}") not in provenance["shards"]]


def claim(folder: str | Path, provenance: Mapping[str, Any]) -> Path:
    """The folder, made if need be; refused where it holds other results or other files."""
    where = make_folder(Path(folder))
    there = {path.name for path in where.iterdir() if path.name not in PARTIAL and not path.name.startswith(BESIDE)}
    if not there:
        return where
    if "provenance.json" not in there:
        raise OutputError(f"{where} holds files that are not conoscope's; give -o an empty or new folder")
    try:
        before = read_provenance(where)
    except OutputError as error:
        if not _is_torn(where / "provenance.json"):
            raise
        # Alone it is the remnant of a run that could not write it.
        if there == {"provenance.json"}:
            return where
        raise OutputError(f"{where / 'provenance.json'} is not whole; give -o another folder, or remove this one") from error
    if (differing := differences(before, provenance)) is not None:
        raise OutputError(f"{where} holds other results ({differing}); give -o another folder, or remove this one")
    return where


def _is_torn(path: Path) -> bool:
    """Whether a file of JSON is empty or ends too soon; what is no JSON of ours at all is somebody else's."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        json.loads(text)
    except OSError:
        return False
    except ValueError:
        return not text or text.startswith("{")
    return False


def versions() -> dict[str, str]:
    """What a result or a model was made with."""
    packages = ("torch", "transformers", "tokenizers", "numpy")
    return {"conoscope": __version__, **{name: version(name) for name in packages}, "python": platform.python_version()}


def write_tables(folder: Path, tables: Mapping[str, "pd.DataFrame"], provenance: Mapping[str, Any]) -> None:
    """Write each table as parquet, with its provenance within, and as CSV."""
    for name, frame in tables.items():
        _write_parquet(frame, folder / f"{stem_of(name)}.parquet", provenance)
        write_text(folder / f"{stem_of(name)}.csv", frame.to_csv(index=False, lineterminator="\n"))


def stem_of(name: str) -> str:
    """What the files of a table are called, without their ending."""
    return name.replace(":", "-").replace("=", "-").replace(",", "-")


def write_provenance(folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write provenance.json."""
    write_text(folder / "provenance.json", json.dumps(provenance, indent=2, ensure_ascii=False) + "\n")


def read_provenance(folder: Path) -> dict[str, Any]:
    """What provenance.json says."""
    try:
        found: dict[str, Any] = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        kinds = {"model": dict, "corpus": dict, "options": dict, "seen": dict, "measures": list, "shards": list}
        if wrong := [name for name, kind in kinds.items() if not isinstance(found.get(name), kind)]:
            raise ValueError(f"it does not tell {one_of(wrong)}")
        if not all(isinstance(shard, str) and re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", shard) for shard in found["shards"]):
            raise ValueError("its shards are not such as 1/4")
    except (OSError, ValueError, AttributeError) as error:
        raise OutputError(
            f"no provenance can be read from {folder}: {error}; expected a folder written by conoscope measure -o"
        ) from error
    return found


def table(asked: Request, tally: Tally) -> "pd.DataFrame":
    """A measure's first table."""
    found = tables_of(asked, tally)
    if asked.name not in found:
        raise _nothing(asked)
    return found[asked.name]


def _nothing(asked: Request) -> MeasureError:
    return MeasureError(f"{asked.name}: nothing to measure; no text had enough tokens or a label, or the model has no such site")


def tables_of(
    asked: Request, tally: Tally, classes: Sequence[str] = (), kinds: Sequence[str] = KINDS
) -> dict[str, "pd.DataFrame"]:
    """A measure's tables by name: measure, site, layer, head, its own keys, value, sd, n, its own further columns.

    Those in which nothing was counted are left out.
    """
    import pandas as pd

    found = {}
    names = {**dict.fromkeys(CLASS_COLUMNS, classes), "kind": kinds}
    for name, how, parts in asked.tables():
        rows = [row for part in parts for row in _part_rows(asked, how, part, tally)]
        if any(row["n"] for row in rows):
            frame = pd.DataFrame([_named(row, names) for row in rows])
            found[name] = frame.astype({"layer": "Int64", "head": "Int64", "n": "Int64"})
    return found


def _named(row: dict[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The row with the names of classes and kinds for their numbers; a kind of -1 is all of them."""
    named = {key: names[key][row[key]] for key in names.keys() & row.keys() if 0 <= row[key] < len(names[key])}
    return {**row, **named, **({"kind": "all"} if row.get("kind") == -1 else {})}


def _part_rows(asked: Request, how: Table, part: Part, tally: Tally) -> Iterator[dict[str, Any]]:
    for reading in _readings(how, part, {name: dict(tally.of(need)) for name, need in part.needs.items()}):
        for head, numbers in enumerate(_numbers(reading)):
            yield {
                "measure": asked.measure.name,
                "site": part.keys.get("site", "weights"),
                "layer": reading.keys["layer"],
                "head": head + 1 if part.by_head else None,
                **{key: value for key, value in {**part.keys, **reading.keys}.items() if key not in ("site", "layer")},
                **numbers,
            }


def _readings(how: Table, part: Part, sums: Mapping[str, Mapping[int, Statistic]]) -> Iterator[Reading]:
    """Every reading of a block, with its layer; a layer that lacks a statistic that the reading needs has none."""
    if how.across:
        if any(sums.values()) and all(sums[name] for name in how.required & sums.keys()):
            yield from _each(how.read(**sums, **part.given))
        return
    layers = sorted({layer for found in sums.values() for layer in found})
    for layer in layers:
        here = {name: found[layer] for name, found in sums.items() if layer in found}
        if how.required - here.keys() - part.given.keys():
            continue
        yield from (reading.with_keys(layer=layer) for reading in _each(how.read(**here, **part.given)))


def _each(found: Reading | Iterable[Reading]) -> Iterable[Reading]:
    return [found] if isinstance(found, Reading) else found


def _numbers(reading: Reading) -> Iterator[dict[str, Any]]:
    """The numbers of each row; where nothing was counted there is no value."""
    more = {name: column.tolist() if isinstance(column, Tensor) else column for name, column in reading.more.items()}
    for row, (value, sd, n) in enumerate(zip(*(x.tolist() for x in (reading.value, reading.sd, reading.n)), strict=True)):
        yield {"value": value if n else None, "sd": sd, "n": int(n), **{name: column[row] for name, column in more.items()}}


def _write_parquet(frame: "pd.DataFrame", path: Path, provenance: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = pa.Table.from_pandas(frame, preserve_index=False)
    metadata = {**(written.schema.metadata or {}), b"conoscope": json.dumps(provenance).encode()}
    with atomic(path) as beside, beside.open("wb") as file:
        pq.write_table(written.replace_schema_metadata(metadata), file)


def _summarized(name: str, frame: "pd.DataFrame") -> str:
    """One line for each block, a column for each layer: the mean over heads where there are heads."""
    columns = list(frame.columns)
    keys = ["site", *columns[columns.index("head") + 1 : columns.index("value")]]
    of = frame["head"].isna().map({True: "whole", False: "mean over heads"})
    wide = frame.assign(of=of).groupby([*keys, "of", "layer"], sort=False)["value"].mean().unstack("layer").sort_index(axis=1)
    shown = wide.head(SHOWN).rename(index=lambda name: cut(name) if isinstance(name, str) else name)
    more = f"\n... and {len(wide) - SHOWN} more rows" if len(wide) > SHOWN else ""
    lines = shown.to_string(float_format="{:.3f}".format, na_rep="").split("\n")
    return "\n".join((f"{name}, by layer", *map(printable, lines))) + more
