"""Rows on anisotropy and on the dimensions that a model uses, by layer and in the last layer, for studies."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conoscope.studies.base import Row

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result

DIMENSIONS = ("effective_rank", "participation_ratio")
"""Measures of how many dimensions are in use."""
SITES = ("hidden", "key", "value")


def anisotropy_rows(stage: str, result: "Result", sim: str = "sim") -> Iterator[Row]:
    """SIM of hidden states, keys and values by layer and in the last one, and the share of the width's dimensions in use.

    The result must have `sim`, a request of that measure, and DIMENSIONS.
    """
    yield from ({"stage": stage, **row} for row in (*_sims(result[sim]), *_dimensions(result)))


def _sims(sim: "pd.DataFrame") -> Iterator[Row]:
    from conoscope.studies.made import by_layer

    for site in SITES:
        layers = by_layer(sim, site)
        yield from ({"quantity": f"sim.{site}", "layer": layer, "value": value} for layer, value in layers.items())
        if layers:
            yield {"quantity": f"sim.{site}.last", "value": layers[max(layers)]}
            yield {"quantity": f"sim.{site}.mean", "value": sum(layers.values()) / len(layers)}


def _dimensions(result: "Result") -> Iterator[Row]:
    """Effective rank and participation ratio of the last layer's hidden states, of all tokens, divided by the width."""
    for name in DIMENSIONS:
        frame = result[name]
        hidden = frame[(frame["site"] == "hidden") & frame["head"].isna()].dropna(subset="value")
        if hidden.empty:
            continue
        last = hidden[hidden["layer"] == hidden["layer"].max()].iloc[0]
        yield {"quantity": f"share.{name}", "value": float(last["value"] / last["width"])}
        if name == DIMENSIONS[0]:
            yield {"quantity": "vectors per dimension", "value": float(last["n"] / last["width"])}
