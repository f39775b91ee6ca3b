"""Captions: what one names is drawn, what is drawn and has a sentence is named, and no docstring names a mark."""

import re
from typing import Any

import pandas as pd
import pytest

from conoscope.figures import FIGURES, spec
from conoscope.figures.base import noted, styles_of
from drawings import drawn, frame, of_runs
from test_figures_classes import cones_table
from test_figures_curves import sim_table, stream_table

MARK = re.compile(
    r"\b(dashed|dotted|bands?|bars?|box(es)?|whiskers?|strokes?|dots?|diamonds?|circles?|squares?(?! root)|tiles?|cells?|hollow|"
    r"(the|a|each) (line|point)s?)\b",
    re.IGNORECASE,
)
"""Words for marks."""


@pytest.mark.parametrize("name", FIGURES)
def test_only_sentences_that_belong_to_a_mark_name_one(name: str) -> None:
    assert not MARK.findall(FIGURES[name].reading)


def test_a_sentence_is_in_the_caption_where_a_layer_has_its_style() -> None:
    figure = FIGURES["sim"]
    whole = sim_table()
    for table in (whole, whole.drop(columns="baseline"), whole.assign(sd=float("nan")), of_runs(whole, "a", "b")):
        chart = spec(drawn("sim", sim=table))
        there = styles_of(chart)
        for style, sentence in figure.marks.items():
            assert (sentence in figure.caption_of(chart)) == (style in there)
    assert "Dashed" not in figure.caption_of(spec(drawn("sim", sim=whole.drop(columns="baseline"))))


def test_styles_are_found_however_deep() -> None:
    deep: dict[str, Any] = {"mark": {"type": "bar", "style": ["one", "two"]}}
    for how in ("layer", "hconcat", "vconcat", "concat"):
        deep = {how: [deep, {"mark": "point"}]}
    assert styles_of({"spec": deep, "facet": {}}) == {"one", "two"}


def test_a_note_is_the_end_of_a_caption_and_an_empty_one_is_none() -> None:
    chart = drawn("sim", sim=sim_table())
    said = spec(noted(chart, "", "Half is left out."))
    assert FIGURES["sim"].caption_of(said).endswith(" Half is left out.")
    assert "notes" not in spec(noted(chart, "", "")).get("usermeta", {})


def test_a_dashed_baseline_is_in_the_legend() -> None:
    found = str(spec(drawn("sim", sim=sim_table())))
    assert "vectors of different sentences" in found
    assert "'strokeDash': {'field': 'stands_for'" in found


def stages(new: set[int]) -> pd.DataFrame:
    """The cone index of what layers read and leave: the same one layer on, but for the layers named."""
    rows: list[dict[str, Any]] = []
    for layer in range(4):
        more = {"layer": layer, "head": None, "sd": 0.1, "n": 9, "value": 5.0}
        rows.append({**more, "site": "hidden", "share": 0.1 * (layer + 1)})
        if layer:
            rows.append({**more, "site": "input", "share": 0.1 * layer + (0.05 if layer in new else 0)})
    return frame(rows)


@pytest.mark.parametrize("new", [set(), {1}, {1, 2, 3}])
def test_what_a_layer_reads_is_drawn_where_it_is_not_what_the_layer_before_left(new: set[int]) -> None:
    (rows,) = spec(drawn("cone-index", cone_index=stages(new)))["datasets"].values()
    assert {row["layer"] for row in rows if row["line"] == "layer input"} == new
    assert {row["layer"] for row in rows if row["line"] == "hidden states"} == {0, 1, 2, 3}


def test_the_caption_of_class_cones_tells_of_first_right_examples_where_they_are_drawn() -> None:
    tables = {kinds: cones_table(["a", "b", "c"], kinds=kinds) for kinds in (("first", "held_out"), ("held_out",))}
    told = [FIGURES["class-cones"].caption_of(spec(drawn("class-cones", class_cones=table))) for table in tables.values()]
    assert ["first example" in caption for caption in told] == [True, False]


@pytest.mark.parametrize(("lacking", "said"), [((), ""), (("one",), " in one:"), (("one", "two"), " in one, two:")])
def test_the_caption_of_shares_tells_where_no_feed_forward_part_was_found(lacking: tuple[str, ...], said: str) -> None:
    table = pd.concat([stream_table(run, forward=run not in lacking) for run in ("one", "two")])
    caption = FIGURES["stream"].caption_of(spec(drawn("stream", stream=table)))
    assert f"No feed-forward part was found{said}" in caption if said else "feed-forward" not in caption
