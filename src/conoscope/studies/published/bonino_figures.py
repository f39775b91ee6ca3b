"""Rows of figures 2 to 5: lengths of the vectors of one head, and the attention maps of the heads most like each gate."""

from collections.abc import Iterator
from math import floor, log2
from typing import TYPE_CHECKING

from conoscope.studies.base import Row

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result

LAYER, HEAD = 1, 4
"""The head of figure 2."""
GATES = {"directional": ("column",), "open": ("entropy",), "contextual": ("forward", "backward")}
"""The gates of figures 3, 4 and 5, each with the scores, added up, by which the head most like it is chosen."""
BINS = 4
"""Bins of lengths between a number and twice that number."""
SIDE = 8
"""Rows and columns of a map."""


def figure_rows(result: "Result", gates: str) -> Iterator[Row]:
    """The share of vectors in each bin of their lengths; the chosen heads, their scores and their maps.

    `gates` names the table of the scores.
    """
    yield from _lengths(result["vector_norms.histogram"])
    scores, maps = result[gates], result[gates.replace("gates", "gates.maps")]
    for gate, names in GATES.items():
        by_head = scores[scores["score"].isin(names)].groupby(["layer", "head"])["value"].sum()
        if not len(by_head):
            continue
        layer, head = (int(number) for number in by_head.sort_values().reset_index().iloc[-1][["layer", "head"]])
        yield {"quantity": f"map.{gate}.score", "value": float(by_head.max())}
        yield {"quantity": f"map.{gate}.layer", "value": layer}
        yield {"quantity": f"map.{gate}.head", "value": head}
        here = maps[(maps["layer"] == layer) & (maps["head"] == head)]
        yield from ({"quantity": f"map.{gate}", **cell} for cell in _coarser(here))


def _lengths(frame: "pd.DataFrame") -> Iterator[Row]:
    """Histograms of the lengths of queries, keys and values of the head: `low` is the lower end of a bin."""
    here = frame[(frame["layer"] == LAYER) & (frame["head"] == HEAD)]
    lows = [2 ** (floor(log2(low) * BINS) / BINS) if low > 0 else 0.0 for low in here["low"]]
    for _, row in here.assign(low=lows).groupby(["site", "low"], as_index=False)["value"].sum().iterrows():
        yield {"quantity": f"histogram.{row['site']}", "low": round(float(row["low"]), 4), "value": float(row["value"])}


def _coarser(cells: "pd.DataFrame") -> Iterator[Row]:
    """The map with fewer places: keys added up, queries averaged, so that rows still add up to 1."""
    finest = int(cells["query"].max())
    at = {side: (cells[side].astype(int) - 1) * SIDE // finest + 1 for side in ("query", "key")}
    by_query = cells.assign(key=at["key"]).groupby(["query", "key"], as_index=False)["value"].sum()
    by_query["query"] = (by_query["query"].astype(int) - 1) * SIDE // finest + 1
    for _, row in by_query.groupby(["query", "key"], as_index=False)["value"].mean().iterrows():
        yield {"query": int(row["query"]), "key": int(row["key"]), "value": float(row["value"])}
