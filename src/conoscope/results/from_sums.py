"""Tables from sums: each measure reads its tables from a tally. Only this part of results needs torch."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from conoscope.common.errors import MeasureError
from conoscope.common.questions import EXPLORED
from conoscope.common.vocabulary import KINDS
from conoscope.measures import Part, Reading, Request, Table, request
from conoscope.measures.questions import question_of
from conoscope.measures.tally import Tally
from conoscope.measures.tally_files import load_tally
from conoscope.results.store import TableInfo, missing_shards, read_provenance
from conoscope.sums.statistics import Statistic

if TYPE_CHECKING:
    import pandas as pd

Sums = Mapping[str, Mapping[int, Statistic]]
"""The sums of each layer that a block of a table reads, by the name under which it reads them."""
CLASS_COLUMNS = ("class", "gold", "predicted", "other_class")
"""The columns in which a class number is replaced by its name."""


def all_tables(tally: Tally, provenance: Mapping[str, Any]) -> dict[str, "pd.DataFrame"]:
    """Every table that the measures of a run read from its sums.

    Measures requested by name must have a table; for a shard of a corpus, or if every measure was run, empty ones are left out.
    """
    classes, kinds = names_of(provenance)
    tables: dict[str, pd.DataFrame] = {}
    for requested in map(request, provenance["measures"]):
        of_measure = tables_of(requested, tally, classes, kinds)
        if not of_measure and not (missing_shards(provenance) or provenance["every"]):
            raise _nothing(requested)
        tables |= of_measure
    return tables


def names_of(provenance: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[str]]:
    """The names of a run's classes and of its kinds of tokens."""
    classes = provenance["model"]["labels"] or provenance["corpus"]["labels"]
    return classes, (*KINDS, *provenance["options"].get("kinds", {}))


def load_tables(folder: Path) -> dict[str, "pd.DataFrame"]:
    """The tables of a folder, computed from its sums."""
    return all_tables(load_tally(folder), read_provenance(folder))


def index_of(measures: Iterable[str]) -> dict[str, TableInfo]:
    """The description of each table of these measures, by name."""
    return {name: _info(requested, spec) for requested in map(request, measures) for name, spec, _ in requested.tables()}


def _info(requested: Request, spec: Table) -> TableInfo:
    low, high = (bound if math.isfinite(bound) else None for bound in spec.within)
    question, place = question_of(requested.measure.name)
    return TableInfo(spec.summary, EXPLORED if spec.explored else question, place, low, high)


def table(requested: Request, tally: Tally) -> "pd.DataFrame":
    """A measure's first table."""
    tables = tables_of(requested, tally)
    if requested.name not in tables:
        raise _nothing(requested)
    return tables[requested.name]


def _nothing(requested: Request) -> MeasureError:
    return MeasureError(
        f"{requested.name}: nothing to measure; no text had enough tokens or a label, or the model has no such site"
    )


def tables_of(
    requested: Request, tally: Tally, classes: Sequence[str] = (), kinds: Sequence[str] = KINDS
) -> dict[str, "pd.DataFrame"]:
    """A measure's tables by name; columns: measure, site, layer, head, the measure's keys, value, sd, n, its further columns.

    Tables in which every n is 0 are left out.
    """
    import pandas as pd

    tables = {}
    for name, spec, parts in requested.tables():
        rows = [row for part in parts for row in part_rows(requested, spec, part, _sums_of(part, tally))]
        if any(row["n"] for row in rows):
            frame = pd.DataFrame(named(rows, classes, kinds))
            tables[name] = frame.astype({"layer": "Int64", "head": "Int64", "n": "Int64"})
    return tables


def named(rows: Iterable[dict[str, Any]], classes: Sequence[str], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with names instead of the numbers of classes and kinds; kind -1 becomes `all`."""
    names = {**dict.fromkeys(CLASS_COLUMNS, classes), "kind": kinds}
    return [_named(row, names) for row in rows]


def _named(row: dict[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    known = {key: names[key][row[key]] for key in names.keys() & row.keys() if 0 <= row[key] < len(names[key])}
    return {**row, **known, **({"kind": "all"} if row.get("kind") == -1 else {})}


def _sums_of(part: Part, tally: Tally) -> Sums:
    return {name: dict(tally.of(need)) for name, need in part.needs.items()}


def part_rows(requested: Request, spec: Table, part: Part, sums: Sums) -> Iterator[dict[str, Any]]:
    """The rows of a block of a table, read from its sums: keys first, then value, sd, n and further columns."""
    for reading in _readings(spec, part, sums):
        for head, numbers in enumerate(_numbers(reading)):
            yield {
                "measure": requested.measure.name,
                "site": part.keys.get("site", "weights"),
                "layer": reading.keys["layer"],
                "head": head + 1 if part.by_head else None,
                **{key: value for key, value in {**part.keys, **reading.keys}.items() if key not in ("site", "layer")},
                **numbers,
            }


def _readings(spec: Table, part: Part, sums: Sums) -> Iterator[Reading]:
    """Every reading of a block, with its layer; layers that lack a required statistic are skipped."""
    if spec.across:
        if any(sums.values()) and all(sums[name] for name in spec.required & sums.keys()):
            yield from _each(spec.read(**sums, **part.given))
        return
    layers = sorted({layer for by_layer in sums.values() for layer in by_layer})
    for layer in layers:
        here = {name: by_layer[layer] for name, by_layer in sums.items() if layer in by_layer}
        if spec.required - here.keys() - part.given.keys():
            continue
        yield from (reading.with_keys(layer=layer) for reading in _each(spec.read(**here, **part.given)))


def _each(readings: Reading | Iterable[Reading]) -> Iterable[Reading]:
    return [readings] if isinstance(readings, Reading) else readings


def _numbers(reading: Reading) -> Iterator[dict[str, Any]]:
    """The values of each row; None for `value` if n is 0."""
    more = {name: column.tolist() if isinstance(column, Tensor) else column for name, column in reading.more.items()}
    for row, (value, sd, n) in enumerate(zip(*(x.tolist() for x in (reading.value, reading.sd, reading.n)), strict=True)):
        yield {"value": value if n else None, "sd": sd, "n": int(n), **{name: column[row] for name, column in more.items()}}
