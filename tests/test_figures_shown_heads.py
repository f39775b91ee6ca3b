"""Figures of a study's heads: what they draw of the rows of a record."""

from typing import Any

import pandas as pd

from conoscope.figures import FIGURES, spec, svg
from conoscope.studies.shown_heads import head_lengths, head_maps


def mean(quantity: str, value: float, **keys: Any) -> dict[str, Any]:
    return {"model": "m", "quantity": quantity, "texts": "correct", "mean": value, **keys}


RECORD = {
    "means": [
        *(mean("map.open", 0.5, query=query, key=key) for query in (1, 2) for key in (1, 2)),
        mean("map.open.layer", 2.0),
        mean("histogram.query", 0.25, low=1.0),
        mean("histogram.query", 0.75, low=2.0),
        mean("histogram.value", 1.0, low=0.0),
        mean("accuracy", 0.9),
    ]
}


def test_tables_hold_the_cells_of_maps_and_the_bins_of_lengths_alone() -> None:
    assert head_maps(RECORD).to_dict("list") == {
        "model": ["m"] * 4, "gate": ["open"] * 4, "query": [1, 1, 2, 2], "key": [1, 2, 1, 2], "value": [0.5] * 4
    }  # fmt: skip
    assert head_lengths(RECORD)["site"].tolist() == ["query", "query", "value"]
    assert head_lengths(RECORD)["value"].tolist() == [0.25, 0.75, 1.0]


def test_a_record_without_heads_has_no_such_table() -> None:
    assert head_maps({"means": [mean("accuracy", 0.9)]}).empty
    assert head_lengths({"means": [mean("accuracy", 0.9)]}).empty


def test_maps_have_a_panel_for_each_model_and_gate_and_lengths_one_for_each_model() -> None:
    maps, lengths = head_maps(RECORD), head_lengths(RECORD)
    both = pd.concat([maps, maps.assign(gate="contextual")])
    drawn = spec(FIGURES["heads-as-gates"].draw({"study.head_maps": both}))
    assert drawn["facet"]["column"]["sort"] == ["open", "contextual"]
    assert drawn["facet"]["row"]["sort"] == ["m"]
    picture = svg(FIGURES["lengths-in-a-head"].draw({"study.head_lengths": lengths}))
    assert "length" in picture
    assert FIGURES["lengths-in-a-head"].draw({"study.head_lengths": lengths.assign(low=0.0)}) is None
