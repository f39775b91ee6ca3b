"""Tables from sums: what each measure reads of a tally. This is where results need torch."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from conoscope.common.errors import MeasureError
from conoscope.common.vocabulary import KINDS
from conoscope.measures import Part, Reading, Request, Table, request
from conoscope.measures.questions import question_of
from conoscope.measures.tally import Tally
from conoscope.results.store import TableInfo, missing_shards, read_provenance
from conoscope.sums.statistics import Statistic

if TYPE_CHECKING:
    import pandas as pd

CLASS_COLUMNS = ("class", "gold", "predicted", "other_class")
"""The columns that hold the number of a class, and show its name."""


def all_tables(tally: Tally, provenance: Mapping[str, Any]) -> dict[str, "pd.DataFrame"]:
    """Every table that the measures of a run read from its sums.

    What was asked for by name must be there; of a part of a corpus, or of every measure, what has something to say.
    """
    classes = provenance["model"]["labels"] or provenance["corpus"]["labels"]
    kinds = (*KINDS, *provenance["options"].get("kinds", {}))
    tables: dict[str, pd.DataFrame] = {}
    for wanted in map(request, provenance["measures"]):
        found = tables_of(wanted, tally, classes, kinds)
        if not found and not (missing_shards(provenance) or provenance["every"]):
            raise _nothing(wanted)
        tables |= found
    return tables


def load_tables(folder: Path) -> dict[str, "pd.DataFrame"]:
    """The tables of a folder that holds sums, read from these."""
    return all_tables(Tally.load(folder), read_provenance(folder))


def index_of(measures: Iterable[str]) -> dict[str, TableInfo]:
    """What each table of these measures holds, by name."""
    return {name: _info(asked, how) for asked in map(request, measures) for name, how, _ in asked.tables()}


def _info(asked: Request, how: Table) -> TableInfo:
    low, high = (bound if math.isfinite(bound) else None for bound in how.within)
    return TableInfo(how.summary, *question_of(asked.measure.name), low, high)


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
