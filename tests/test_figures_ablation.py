"""The figure of an ablation: one mark a model, its condition told by colour and shape, the gate drawn."""

from typing import Any

import pandas as pd

from conoscope.figures import FIGURES, spec, svg
from drawings import channels, is_drawable, of_runs, parts_of, rows_of

CONDITIONS = [f"condition {number}" for number in range(11)]


def table(**changed: object) -> pd.DataFrame:
    rows = [
        {"condition": name, "layers": layers, "seed": seed, "accuracy": 0.5 + 0.01 * seed, "value": 0.08 * place, "gate": 0.383}
        for place, name in enumerate(CONDITIONS)
        for layers in (5, 1)
        for seed in range(10)
    ]
    return pd.DataFrame(rows).assign(**changed)


def drawn(frame: pd.DataFrame) -> dict[str, Any]:
    return spec(FIGURES["narrow-cones"].draw({"study.cones": frame}))


def test_every_run_is_a_mark_in_the_panel_of_its_layers_and_fewer_layers_come_first() -> None:
    chart = drawn(table())
    rows = rows_of(chart)
    assert len(rows) == 220
    assert list(dict.fromkeys(row["panel"] for row in rows)) == ["1 layer", "5 layers"]
    assert {row["condition"] for row in rows} == set(CONDITIONS)


def test_eleven_conditions_have_marks_of_their_own_by_colour_and_shape() -> None:
    chart = drawn(table())
    (colour,), (shape,) = (list(channels(chart, channel)) for channel in ("color", "shape"))
    marks = set(zip(colour["scale"]["range"], shape["scale"]["range"], strict=True))
    assert len(marks) == len(CONDITIONS)


def test_the_gate_is_drawn_and_the_caption_says_what_it_is() -> None:
    chart = drawn(table())
    gate, model = parts_of(chart)
    assert gate["encoding"]["x"]["field"] == "gate"
    assert (model["encoding"]["x"]["field"], model["encoding"]["y"]["field"]) == ("accuracy", "value")
    caption = FIGURES["narrow-cones"].caption_of(chart)
    assert "right of the dashed line" in caption
    assert "Each mark is one model" in caption
    assert is_drawable(FIGURES["narrow-cones"].draw({"study.cones": table()}))


def test_runs_of_several_studies_have_panels_of_their_own() -> None:
    chart = drawn(of_runs(table(), "one", "two"))
    assert list(dict.fromkeys(row["panel"] for row in rows_of(chart))) == [
        "one, 1 layer", "one, 5 layers", "two, 1 layer", "two, 5 layers",
    ]  # fmt: skip


def test_the_picture_holds_a_mark_for_each_model() -> None:
    picture = svg(FIGURES["narrow-cones"].draw({"study.cones": table()}))
    assert picture.count("mark-symbol role-mark") == 2
    assert "SIM of the last layer" in picture
