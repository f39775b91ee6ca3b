"""Shown heads: maps of the heads most like each gate, and lengths of the vectors of one head, as tables from a record."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

MAP, HISTOGRAM = "map.", "histogram."
CELL = ["model", "gate", "query", "key", "value"]
BIN = ["model", "site", "low", "value"]


def head_maps(record: Mapping[str, Any]) -> pd.DataFrame:
    """The mean map over seeds of each model's head for each gate, one row a cell; without rows if the study has no maps."""
    found = [
        {**mean, "gate": str(mean["quantity"]).removeprefix(MAP), "value": mean["mean"]}
        for mean in record["means"]
        if str(mean["quantity"]).startswith(MAP) and mean.get("query") is not None
    ]
    return pd.DataFrame(found, columns=CELL)


def head_lengths(record: Mapping[str, Any]) -> pd.DataFrame:
    """The mean share over seeds of queries, keys and values of each length, one row a bin; without rows if there are none."""
    found = [
        {**mean, "site": str(mean["quantity"]).removeprefix(HISTOGRAM), "value": mean["mean"]}
        for mean in record["means"]
        if str(mean["quantity"]).startswith(HISTOGRAM) and "model" in mean and mean.get("texts") is not None
    ]
    return pd.DataFrame(found, columns=BIN)
