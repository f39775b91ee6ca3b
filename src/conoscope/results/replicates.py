"""Replicates: the values of a table without the texts of each group, from sums that are kept by group of texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int

from conoscope.measures import Part, Request, Table, request
from conoscope.measures.tally import Tally
from conoscope.results.from_sums import Sums, named, names_of, part_rows
from conoscope.sums.grouped import GROUPS, GroupedMoments

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result


@dataclass(frozen=True)
class Replicates:
    """The rows of a table without the texts of each group: its keys, and for every row and group the value, NaN if there is
    none, and n."""

    keys: "pd.DataFrame"
    values: Float[np.ndarray, "rows groups"]
    n: Int[np.ndarray, "rows groups"]


def replicates(result: "Result", name: str) -> Replicates | None:
    """What a table's rows are without each group of texts; None if none of its sums is kept by group."""
    import pandas as pd

    for requested in map(request, result.provenance["measures"]):
        for table, spec, parts in requested.tables():
            grouped = [part for part in parts if any(need.grouped for need in part.needs.values())]
            if table == name and grouped:
                rows, values, n = _without_each(requested, spec, grouped, result.tally)
                keys = pd.DataFrame(named(rows, *names_of(result.provenance)))
                return Replicates(keys.astype({"layer": "Int64", "head": "Int64"}), values, n)
    return None


def _without_each(
    requested: Request, spec: Table, parts: list[Part], tally: Tally
) -> tuple[list[dict[str, Any]], Float[np.ndarray, "rows groups"], Int[np.ndarray, "rows groups"]]:
    """The keys of each row, and its value and n without each group."""
    # Without what is not kept by group, where a table can be read without it: its rows would not change.
    sums = [
        {name: dict(tally.kept_of(need)) for name, need in part.needs.items() if need.grouped or name in spec.required}
        for part in parts
    ]
    every = torch.ones(GROUPS, dtype=torch.bool)

    def rows(some: torch.Tensor) -> Iterator[dict[str, Any]]:
        for part, kept in zip(parts, sums, strict=True):
            yield from part_rows(requested, spec, part, _of_groups(kept, some))

    keys = {_key(row): place for place, row in enumerate(rows(every))}
    values, n = np.full((len(keys), GROUPS), np.nan), np.zeros((len(keys), GROUPS), dtype=np.int64)
    for group in range(GROUPS):
        for row in rows(every.index_fill(0, torch.tensor([group]), False)):
            if row["n"] and (place := keys.get(_key(row))) is not None:
                values[place, group], n[place, group] = row["value"], row["n"]
    return [dict(key) for key in keys], values, n


def _of_groups(sums: Sums, some: torch.Tensor) -> Sums:
    """The same sums over some groups of texts; those that are not kept by group are of all texts."""
    return {
        name: {layer: each.of_groups(some) if isinstance(each, GroupedMoments) else each for layer, each in by_layer.items()}
        for name, by_layer in sums.items()
    }


def _key(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The columns of a row before its value, without the measure."""
    items = list(row.items())
    return tuple(items[1 : list(row).index("value")])
