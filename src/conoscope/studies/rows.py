"""Rows: the rows of a record's runs, rebuilt from its means, so that every record can be judged again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from conoscope.studies.base import Keys

Run = Mapping[str, Any]
STATISTICS = ("mean", "sd", "n", "values")
"""Columns of a mean that are not its keys."""
FACTS = ("seed", "examples", "seconds")
"""Columns of a run that are not its keys, in records that have no `keys`."""

SHARED = ("setting", "source", "machine")
"""Facts of a run that a record has once for all runs with the same: by number in its lists `settings`, `sources`, `machines`."""


def rows_of(record: Mapping[str, Any], left_out: Iterable[int] = ()) -> pd.DataFrame:
    """The rows of all runs, or of those whose number in `record["runs"]` is not in `left_out`."""
    out, rows = set(left_out), []
    for number, row in numbered(record):
        if number not in out:
            rows.append(row)
    return pd.DataFrame(rows, columns=None if rows else ["quantity", "seed", "value"])


def numbered(record: Mapping[str, Any]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Each row with the number of its run."""
    places: dict[int, list[tuple[Keys, int]]] = {}
    for number, run in enumerate(record["runs"]):
        places.setdefault(run["seed"], []).append((keys_of_run(run), number))
    for mean in record["means"]:
        keys = without(mean, STATISTICS)
        for seed, value in mean["values"].items():
            yield _owner(keys, places.get(int(seed), ())), {**keys, "seed": int(seed), "value": value}


def means_without(record: Mapping[str, Any], left_out: Iterable[int]) -> list[dict[str, Any]]:
    """The means of a record, in their order, without the values of some of its runs; those of no run have `n` 0 and no mean."""
    out, rows = set(left_out), numbered(record)
    found = []
    for mean in record["means"]:
        owners = [number for _, (number, _) in zip(mean["values"], rows, strict=False)]
        values = {seed: value for (seed, value), number in zip(mean["values"].items(), owners, strict=True) if number not in out}
        sd = {"sd": stdev(values.values())} if len(values) > 1 else {}
        numbers = {"mean": fmean(values.values()) if values else None, **sd, "n": len(values), "values": values}
        found.append({**without(mean, STATISTICS), **numbers})
    return found


def _owner(keys: Keys, runs: Sequence[tuple[Keys, int]]) -> int | None:
    """The run with the most keys among those whose keys a row has."""
    found = [(len(of), number) for of, number in runs if all(keys.get(name) == value for name, value in of.items())]
    return max(found)[1] if found else None


def keys_of_run(run: Run) -> dict[str, Any]:
    """The keys of a run's condition."""
    return dict(run["keys"]) if "keys" in run else without(run, FACTS)


def without(row: Mapping[str, Any], others: Iterable[str]) -> dict[str, Any]:
    """The columns of a row but those."""
    leave = set(others)
    return {name: value for name, value in row.items() if name not in leave}


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dicts without missing values, with whole numbers as integers."""
    return [{str(name): plain(value) for name, value in row.items() if not _missing(value)} for row in frame.to_dict("records")]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def plain(value: Any) -> Any:
    """The value as a record has it: numbers with five digits, whole ones as integers."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value if not isinstance(value, float) else int(value) if value.is_integer() else float(f"{value:.5g}")
