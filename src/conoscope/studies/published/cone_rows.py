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
SHOWN = 3
"""How many of the nearest, and of the farthest, examples of each class a record keeps."""


def cone_rows(stage: str, result: "Result", answers: bool = True) -> Iterator[Row]:
    """Cosines, cosines between directions, and the nearest-cone classifier with its controls. With `answers`, also what depends
    on the model's answers: agreement with them, medians and neighbours of the first correct text, correlations over classes."""
    found = [_cosines(result), _between(result), _nearest(result, answers)]
    if answers:
        found += [_medians(result), _correlated(result), _neighbours(result)]
    for row in (row for rows in found for row in rows):
        if row["value"] == row["value"]:
            yield {"stage": stage, **row, "value": float(row["value"])}


def example_rows(stage: str, result: "Result") -> Iterator[Row]:
    """The examples nearest to the first correct text of each class, and the farthest: names and cosines, never texts."""
    for row in _examples(result).to_dict("records"):
        if row["place"] <= SHOWN:
            keys = {"class": row["class"], "gold": row["gold"], "place": row["place"], "example": row["example"]}
            yield {"stage": stage, "quantity": f"cosine.{row['side']}", **keys, "value": float(row["value"])}


def _last(result: "Result", table: str, sites: Sequence[str] = ("hidden",)) -> "pd.DataFrame":
    """A table's rows in the last layer; none if the result has no such table."""
    if table not in result.tables:
        return result["class_cones"].iloc[:0].assign(side=None, place=None, other_class=None)
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


def _between(result: "Result") -> Iterator[Row]:
    """Cosines between the mean directions of two classes: of each pair where classes are few, and the one farthest from 0."""
    between = _last(result, "class_cones.between")
    means = between[between["representative"] == "mean"].dropna(subset="value")
    if len(means) <= FEW * (FEW - 1) // 2:
        for row in means.to_dict("records"):
            yield {"quantity": "cosine.between", "class": row["class"], "gold": row["other_class"], "value": row["value"]}
    if len(means):
        yield {"quantity": "cosine.largest", "value": means["value"].abs().max()}
        yield {"quantity": "cosine.typical", "value": means["value"].abs().median()}


def _nearest(result: "Result", answers: bool) -> Iterator[Row]:
    nearest = _last(result, "class_cones.nearest")
    for row in nearest[(nearest["representative"] == FAIR) | (nearest["control"] != "none")].to_dict("records"):
        yield {"quantity": "nearest" if row["control"] == "none" else f"control.{row['control']}", "value": row["value"]}
        if row["control"] == "none":
            yield {"quantity": "control.largest", "value": row["chance"]}
        if row["control"] == "none" and answers:
            yield {"quantity": "agreement", "value": row["agreement"]}


def _correlated(result: "Result") -> Iterator[Row]:
    """Pearson's and Spearman's correlation over classes, if there are many; `first` is as published."""
    found = _last(result, "class_cones.correlation") if "class_cones.correlation" in result.tables else None
    there = [] if found is None else found[found["representative"].isin(("first", FAIR)) & (found["n"] > FEW)].to_dict("records")
    for row in there:
        for quantity, value in (("pearson", row["value"]), ("spearman", row["spearman"])):
            yield {"quantity": f"{quantity}.{row['representative']}", "value": value}


def _examples(result: "Result") -> "pd.DataFrame":
    """The table of examples for the first correct text of each class."""
    table = _last(result, "class_cones.examples")
    first: pd.DataFrame = table[table["representative"] == "first"]
    return first


def _neighbours(result: "Result") -> Iterator[Row]:
    """The share of the nearest, and of the farthest, examples that are of the representative's own class."""
    for side, rows in _examples(result).groupby("side"):
        yield {"quantity": f"share.{side}", "value": (rows["class"] == rows["gold"]).mean()}
