"""What tests of figures share: the rows that a chart draws, and where its channels are."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from conoscope.figures import FIGURES, spec, svg
from conoscope.figures.base import Tables

BUDGET = 250_000
"""Bytes that a figure may take of a page, live and as a picture together."""


def drawn(name: str, tables: Tables) -> dict[str, Any]:
    """A figure as Vega-Lite."""
    return spec(FIGURES[name].draw(tables))


def rows(name: str, tables: Tables) -> list[dict[str, Any]]:
    """The rows of a figure's one table."""
    (found,) = drawn(name, tables)["datasets"].values()
    return list(found)


def channels(found: Any, name: str) -> Iterator[dict[str, Any]]:
    """Every use of a channel in a chart, however deep."""
    if isinstance(found, dict):
        if name in found.get("encoding", {}):
            yield found["encoding"][name]
        for inner in found.values():
            yield from channels(inner, name)
    elif isinstance(found, list):
        for inner in found:
            yield from channels(inner, name)


def size(name: str, tables: Tables) -> int:
    """Bytes of a figure on a page."""
    chart = FIGURES[name].draw(tables)
    return len(json.dumps(spec(chart))) + len(svg(chart))


def of_runs(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The same table of several runs."""
    return pd.concat([frame.assign(run=name) for name in names], ignore_index=True)
