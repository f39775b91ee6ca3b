"""Rows of class cones in the last layer of a model, for studies."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from conoscope.studies.base import Row

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result

FAIR = "held_out"
"""The representative whose direction comes from the other half of the texts, so that no text is compared with itself."""
FEW = 3
"""Largest number of classes for which every pair gets a row."""


def cone_rows(stage: str, result: "Result") -> Iterator[Row]:
    """Cosines, medians, the nearest-cone classifier with its controls, and correlations over classes, where defined."""
    for row in (*_cosines(result), *_medians(result), *_nearest(result), *_correlated(result)):
        if row["value"] == row["value"]:
            yield {"stage": stage, **row, "value": float(row["value"])}


def _last(result: "Result", table: str, sites: Sequence[str] = ("hidden",)) -> "pd.DataFrame":
    frame = result[table]
    rows: pd.DataFrame = frame[frame["site"].isin(sites) & (frame["layer"] == frame["layer"].max())]
    return rows


def _cosines(result: "Result") -> Iterator[Row]:
    cones = _last(result, "class_cones")
    fair = cones[cones["representative"] == FAIR]
    own = fair["class"] == fair["gold"]
    for name, part in (("own", fair[own]), ("other", fair[~own])):
        yield {"quantity": f"cosine.{name}", "value": part["value"].mean()}


def _medians(result: "Result") -> Iterator[Row]:
    """Medians of the cosines with the first correctly classified text of a class, as published."""
    cones = _last(result, "class_cones", ("hidden", "key", "value"))
    shown = "first" if cones["class"].nunique() <= FEW else None
    for row in cones[cones["representative"] == shown].to_dict("records"):
        keys = {"class": row["class"], "gold": row["gold"]}
        yield {"quantity": f"median.{row['site']}", **keys, "value": row["q50"]}


def _nearest(result: "Result") -> Iterator[Row]:
    nearest = _last(result, "class_cones.nearest")
    for row in nearest[(nearest["representative"] == FAIR) | (nearest["control"] != "none")].to_dict("records"):
        yield {"quantity": "nearest" if row["control"] == "none" else f"control.{row['control']}", "value": row["value"]}
        if row["control"] == "none":
            yield {"quantity": "agreement", "value": row["agreement"]}
            yield {"quantity": "control.largest", "value": row["chance"]}


def _correlated(result: "Result") -> Iterator[Row]:
    """Pearson's and Spearman's correlation over classes, if there are many; `first` is as published."""
    found = _last(result, "class_cones.correlation") if "class_cones.correlation" in result.tables else None
    there = [] if found is None else found[found["representative"].isin(("first", FAIR)) & (found["n"] > FEW)].to_dict("records")
    for row in there:
        for quantity, value in (("pearson", row["value"]), ("spearman", row["spearman"])):
            yield {"quantity": f"{quantity}.{row['representative']}", "value": value}
