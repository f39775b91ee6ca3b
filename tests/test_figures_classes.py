"""Figures of classes: what is drawn is what the tables say, of two classes and of very many."""

import math
from itertools import combinations
from typing import Any

import pandas as pd
import pytest

from conoscope.figures import FIGURES, spec
from drawings import (
    BUDGET,
    HOSTILE,
    channels,
    drawn,
    frame,
    is_drawable,
    marks_of,
    panels_of,
    parts_of,
    rows_of,
    rows_where,
    size,
)

QUANTILES = ("q05", "q25", "q50", "q75", "q95")
CENTRED = tuple(f"centred_{name}" for name in QUANTILES)
PLANE_BUDGET = 700_000
"""Bytes of a plane, which draws every example of every layer."""
NAMES = ["class-cones", "class-cosines", "class-cosines-by-layer", "class-plane", "class-plane-means", "nearest-cone"]


def names(count: int) -> list[str]:
    return [f"class {number:02}" for number in range(count)]


def cosine(one: int, other: int) -> float:
    return 0.8 if one == other else 0.01 * one - 0.001 * other


def cones_table(classes: list[str], run: str = "", kinds: tuple[str, ...] = ("first", "mean", "held_out")) -> pd.DataFrame:
    """Quantiles in layer 2 alone, around a median that tells both classes; the centred ones are half as large."""
    rows: list[dict[str, Any]] = []
    for layer in (1, 2):
        for site in ("hidden", "key"):
            for kind in kinds:
                for one, own in enumerate(classes):
                    for other, gold in enumerate(classes):
                        steps = {name: cosine(one, other) + 0.01 * (place - 2) for place, name in enumerate(QUANTILES)}
                        steps |= {f"centred_{name}": value / 2 for name, value in steps.items()}
                        row = {"run": run, "site": site, "layer": layer, "head": None, "representative": kind}
                        row |= {"class": own, "gold": gold, "value": cosine(one, other), "sd": 0.1, "n": 50}
                        rows.append({**row, **(steps if layer == 2 else dict.fromkeys(steps))})
    table = frame(rows)
    return table.astype(dict.fromkeys((*QUANTILES, *CENTRED), float))


def between_table(classes: list[str], run: str = "") -> pd.DataFrame:
    return frame(
        [
            {"run": run, "site": site, "layer": layer, "head": None, "representative": kind, "sd": None, "n": 1}
            | {"class": classes[one], "other_class": classes[other], "value": (-1) ** layer * (0.1 * one - 0.01 * other) % 1}
            for site in ("hidden", "key")
            for layer in (0, 1, 2)
            for kind in ("first", "mean")
            for one, other in combinations(range(len(classes)), 2)
        ]
    )


def nearest_table(run: str = "", model: float | None = 0.9) -> pd.DataFrame:
    ways = [("first", "none"), ("mean", "none"), ("held_out", "none"), ("medoid", "none"), ("mean", "norm")]
    permuted = {"representative": "held_out", "control": "shuffled", "value": 0.51, "agreement": None}
    permuted |= {"low": 0.31, "high": 0.74, "p": 0.005, "permutations": 200, "observed": 0.95}
    more = {"run": run, "layer": 2, "head": None, "sd": 0.4, "n": 100, "agreement": model, "model": model, "chance": 0.5}
    table = frame(
        [
            {**more, "site": site, "representative": kind, "control": control, "value": 0.98 if control == "none" else 0.5}
            for site in ("hidden", "key", "value")
            for kind, control in ways
        ]
        + [{**more, "site": site, **permuted} for site in ("hidden", "key", "value")]
    )
    return table.astype({"agreement": float, "model": float})


def plane_table(classes: list[str], run: str = "", layers: int = 3, count: int = 256, answers: bool = True) -> pd.DataFrame:
    """Every fifth answer is the first class."""
    rows: list[dict[str, Any]] = []
    for layer in range(layers):
        for projection in ("pca", "means"):
            for number in range(count):
                gold = classes[number % len(classes)]
                predicted: Any = classes[0] if number % 5 == 0 else gold
                row = {"run": run, "site": "hidden", "layer": layer, "head": None, "projection": projection, "sd": None, "n": 1}
                row |= {"value": float(number), "second": -float(number), "share": 0.25, "example": f"corpus:test:{number}"}
                row["text"] = f"text {number}"
                rows.append(row | {"gold": gold, "predicted": predicted if answers else -1})
    return frame(rows)


def all_tables(classes: list[str], run: str = "") -> dict[str, pd.DataFrame]:
    return {
        "class_cones": cones_table(classes, run),
        "class_cones__between": between_table(classes, run),
        "class_cones__nearest": nearest_table(run),
        "class_cones__plane": plane_table(classes, run),
    }


def of_runs(runs: list[str], classes: list[str]) -> dict[str, pd.DataFrame]:
    parts = [all_tables(classes, run) for run in runs]
    return {table: pd.concat([part[table] for part in parts]) for table in parts[0]}


def test_a_box_is_the_middle_half_and_a_whisker_nine_tenths_of_the_last_layer_s_cosines() -> None:
    chart = drawn("class-cones", class_cones=cones_table(["a", "b", "c"]))
    (row,) = rows_where(chart, panel="hidden states: mean of the other half", gold="c", **{"class": "b"})
    assert [row[name] for name in CENTRED] == pytest.approx([0.004 + 0.005 * step for step in (-2, -1, 0, 1, 2)])
    assert row["q50"] == pytest.approx(0.008)
    told = [tip["field"] for tip in list(parts_of(chart))[-1]["encoding"]["tooltip"]]
    assert {*CENTRED, "q50"} <= set(told)
    whisker, box, median = (
        (part["encoding"]["y"]["field"], part["encoding"].get("y2", {}).get("field")) for part in parts_of(chart)
    )
    assert (whisker, box, median) == ((CENTRED[0], CENTRED[4]), (CENTRED[1], CENTRED[3]), (CENTRED[2], None))
    assert marks_of(chart) == ["rule", "bar", "tick"]


def test_of_two_classes_the_direction_is_drawn_once_and_the_caption_says_so() -> None:
    chart = drawn("class-cones", class_cones=cones_table(["a", "b"]))
    assert {(row["class"], row["gold"]) for row in rows_of(chart)} == {("b", "a"), ("b", "b")}
    assert "so that one is drawn" in FIGURES["class-cones"].caption_of(spec(chart))
    three = drawn("class-cones", class_cones=cones_table(["a", "b", "c"]))
    assert {row["class"] for row in rows_of(three)} == set("abc")
    assert "so that one is drawn" not in FIGURES["class-cones"].caption_of(spec(three))


def test_no_direction_is_drawn_that_a_scored_example_helped_to_make() -> None:
    panels = panels_of(drawn("class-cones", class_cones=cones_table(["a", "b"])))
    assert panels == [
        f"{site}\n{kind}" for site in ("hidden states", "keys") for kind in ("mean of the other half", "first right example")
    ]
    alone = drawn("class-cones", class_cones=cones_table(["a", "b"], kinds=("mean", "held_out")))
    assert panels_of(alone) == ["hidden states\nmean of the other half", "keys\nmean of the other half"]


def test_of_several_runs_the_hidden_states_of_each_are_a_panel() -> None:
    chart = drawn("class-cones", class_cones=pd.concat([cones_table(["a", "b"], run) for run in ("one", "two")]))
    assert [panel.partition("\n")[0] for panel in panels_of(chart)] == ["one", "one", "two", "two"]


def test_without_quantiles_or_without_directions_there_are_no_boxes() -> None:
    assert drawn("class-cones", class_cones=cones_table(["a", "b"]).query("layer == 1")) is None
    assert drawn("class-cones", class_cones=cones_table(["a", "b"], kinds=("mean",))) is None


def test_of_many_classes_the_others_are_the_range_of_their_medians_and_the_nearest_is_named() -> None:
    chart = drawn("class-cones", class_cones=cones_table(names(28)))
    (row,) = rows_where(chart, panel="hidden states", **{"class": "class 05"})
    assert (row["centred_q50"], row["lowest"], row["highest"]) == pytest.approx((0.4, (0.05 - 0.027) / 2, 0.025))
    assert row["whose"] == "class 00"
    assert len(rows_of(chart)) == 2 * 28


def test_of_very_many_classes_forty_are_drawn() -> None:
    cones = cones_table(names(60), kinds=("held_out",)).query("layer == 2")
    boxes = drawn("class-cones", class_cones=cones)
    assert len(rows_where(boxes, panel="keys")) == 40
    assert "40 of 60 classes are drawn" in FIGURES["class-cones"].caption_of(spec(boxes))
    matrix = drawn("class-cosines", class_cones__between=between_table(names(60)))
    assert "40 of 60 classes are drawn" in FIGURES["class-cosines"].caption_of(spec(matrix))
    cells = rows_of(matrix)
    assert len({row["class"] for row in cells}) == 40
    assert len(cells) == 40 * 41 / 2


def degrees(cosine: float) -> float:
    return math.degrees(math.acos(cosine))


def test_the_matrix_is_symmetric_with_zeros_on_the_diagonal_and_of_the_last_layer_s_means() -> None:
    table = between_table(["a", "b", "c"])
    cells = {
        (row["class"], row["other"]): row["value"]
        for row in rows_where(drawn("class-cosines", class_cones__between=table), panel="keys")
    }
    assert len(cells) == 9
    assert all(cells[pair] == cells[pair[::-1]] for pair in cells)
    assert {cells[name, name] for name in "abc"} == {0}
    (last,) = table.query("layer == 2 and site == 'key' and representative == 'mean' and `class` == 'b'")["value"]
    assert cells["b", "c"] == pytest.approx(degrees(last), rel=1e-4)


def test_directions_whose_cosines_are_all_1_00_are_told_apart_by_their_angles() -> None:
    table = between_table(["a", "b", "c"])
    table["value"] = 1 - 1e-6 * (1 + table["layer"].astype(float))
    (row,) = rows_where(drawn("class-cosines", class_cones__between=table), panel="keys", **{"class": "a", "other": "b"})
    assert row["value"] == pytest.approx(degrees(1 - 3e-6), rel=1e-4)
    lines = rows_where(drawn("class-cosines-by-layer", class_cones__between=table), panel="keys", line="a – b")
    assert [line["value"] for line in lines] == pytest.approx([degrees(1 - 1e-6 * step) for step in (1, 2, 3)], abs=1e-5)


def test_cells_have_numbers_while_they_are_few_and_half_is_drawn_when_they_are_many() -> None:
    few, more, many = (drawn("class-cosines", class_cones__between=between_table(names(count))) for count in (8, 12, 13))
    assert marks_of(few) == ["rect", "text"]
    assert marks_of(more) == ["rect"]
    assert len(rows_of(more)) == 2 * 144
    assert len(rows_of(many)) == 13 * 14 / 2
    low, high = spec(few)["spec"]["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert (low, high) == (0, max(row["value"] for row in rows_of(few)))
    assert "One half of the matrix" in FIGURES["class-cosines"].caption_of(spec(many))
    assert "Numbers in the cells" not in FIGURES["class-cosines"].caption_of(spec(more))


def test_of_few_classes_each_pair_is_a_line_by_layer_and_of_more_the_mean_over_pairs_with_its_range() -> None:
    few = drawn("class-cosines-by-layer", class_cones__between=between_table(["a", "b", "c"]))
    assert {row["line"] for row in rows_of(few)} == {"a – b", "a – c", "b – c"}
    assert {row["layer"] for row in rows_of(few)} == {0, 1, 2}
    table = between_table(names(6))
    (row,) = rows_where(drawn("class-cosines-by-layer", class_cones__between=table), panel="hidden states", layer=1)
    values = table.query("site == 'hidden' and layer == 1 and representative == 'mean'")["value"].map(degrees)
    assert (row["value"], row["low"], row["high"]) == pytest.approx((values.mean(), values.min(), values.max()), rel=1e-4)
    assert row["pairs"] == 15


def test_one_class_has_no_pairs() -> None:
    empty = between_table(["a", "b"]).iloc[:0]
    assert drawn("class-cosines", class_cones__between=empty) is None
    assert drawn("class-cosines-by-layer", class_cones__between=empty) is None


def test_the_nearest_cone_has_an_interval_within_bounds_beside_model_and_chance() -> None:
    chart = drawn("nearest-cone", class_cones__nearest=nearest_table())
    (row,) = rows_where(chart, panel="hidden states", kind="mean", of="value")
    assert (row["share"], row["low"], row["high"]) == (0.98, pytest.approx(0.98 - 1.96 * 0.04), 1)
    (control,) = rows_where(chart, panel="keys", kind="control: length alone", of="value")
    assert control["share"] == 0.5
    (model,) = rows_where(chart, panel="values", kind="middle example", of="model")
    assert (model["share"], model["low"]) == (0.9, None)
    assert panels_of(chart) == ["hidden states", "keys", "values"]


def test_permuted_labels_are_a_median_with_their_range_and_never_answer_as_the_model() -> None:
    chart = drawn("nearest-cone", class_cones__nearest=nearest_table())
    found = rows_where(chart, panel="keys", kind="control: labels permuted")
    assert {row["of"] for row in found} == {"permuted", "model", "chance"}
    (row,) = [row for row in found if row["of"] == "permuted"]
    assert [row[name] for name in ("share", "low", "high", "p", "permutations", "observed")] == [
        0.51,
        0.31,
        0.74,
        0.005,
        200,
        0.95,
    ]
    assert "Square and bar: the median score of labels dealt anew" in FIGURES["nearest-cone"].caption_of(spec(chart))
    without = nearest_table().query("control != 'shuffled'").drop(columns=["low", "high", "p", "permutations", "observed"])
    assert "Square" not in FIGURES["nearest-cone"].caption_of(spec(drawn("nearest-cone", class_cones__nearest=without)))


def test_equal_shares_are_not_printed_over_each_other() -> None:
    points = [part["mark"] for part in parts_of(drawn("nearest-cone", class_cones__nearest=nearest_table()))]
    lanes = {point["style"]: point["yOffset"] for point in points if point["type"] == "point"}
    assert len({lanes["value"], lanes["agreement"], lanes["model"]}) == 3


def test_a_model_that_does_not_classify_has_neither_accuracy_nor_agreement() -> None:
    chart = drawn("nearest-cone", class_cones__nearest=nearest_table(model=None))
    assert {row["of"] for row in rows_of(chart)} == {"value", "permuted", "chance"}
    said = next(parts_of(chart))["encoding"]["color"]["scale"]["domain"]
    assert [name.partition(",")[0] for name in said] == ["nearest cone", "the same of permuted labels", "largest class (chance)"]
    assert "the model" not in FIGURES["nearest-cone"].caption_of(spec(chart)).partition("do.")[2]


def points_of(chart: Any) -> list[dict[str, Any]]:
    """The points of a plane with what is known of their examples, and their panel."""
    found, points = spec(chart), []
    for part in found["concat"]:
        title = part["title"] if isinstance(part["title"], str) else "\n".join(part["title"])
        known = {row["key"]: row for row in found["datasets"][part["transform"][0]["from"]["data"]["name"]]}
        points += [
            {"panel": title, **row, **known[row["key"]]} for row in found["datasets"][part.get("data", found.get("data"))["name"]]
        ]
    return points


def test_a_point_of_the_plane_is_an_example_and_hollow_where_the_model_is_wrong() -> None:
    chart = drawn("class-plane", class_cones__plane=plane_table(["a", "b"]))
    (row,) = [row for row in points_of(chart) if row["panel"] == "layer 2 (25%)" and row["example"] == "corpus:test:5"]
    assert (row["x"], row["y"], row["gold"], row["predicted"], row["answer"]) == (5, -5, "b", "a", "wrong")
    assert row["text"] == "text 5"
    (right,) = [row for row in points_of(chart) if row["panel"] == "layer 2 (25%)" and row["example"] == "corpus:test:7"]
    assert (right["gold"], right["answer"]) == ("b", "right")
    part = next(parts_of(chart))
    assert {"example", "text"} <= {tip["field"] for tip in part["encoding"]["tooltip"]}
    full = part["encoding"]["fillOpacity"]["scale"]
    assert dict(zip(full["domain"], full["range"], strict=True)) == {"right": 0.7, "wrong": 0}


def test_a_class_has_one_colour_in_all_figures_though_the_model_gets_none_of_the_first_right() -> None:
    cones = cones_table(["a", "b", "c"])
    cones = cones[(cones["representative"] != "first") | (cones["class"] != "a")]
    boxes, plane = (
        drawn(name, class_cones=cones, class_cones__plane=plane_table(["c", "b", "a"])) for name in ("class-cones", "class-plane")
    )
    colours = [next(channels(chart, name))["scale"] for chart, name in ((boxes, "color"), (plane, "fill"))]
    assert colours[0]["domain"] == colours[1]["domain"] == ["a", "b", "c"]
    assert colours[0]["range"] == colours[1]["range"]


def test_both_axes_of_a_plane_have_one_scale_and_all_points_lie_within() -> None:
    table = plane_table(["a", "b"])
    table["second"] = 0.1 * table["second"] * (1 + table["layer"].astype(float)) + 7
    chart = drawn("class-plane", class_cones__plane=table)
    for part in spec(chart)["concat"]:
        points = [point for point in points_of(chart) if point["panel"] == part["title"]]
        assert len(points) == 256
        spans = []
        for axis in ("x", "y"):
            low, high = part["encoding"][axis]["scale"]["domain"]
            assert low < min(point[axis] for point in points) <= max(point[axis] for point in points) < high
            spans.append(high - low)
        assert spans[0] / part["width"] == pytest.approx(spans[1] / part["height"], rel=1e-4)


@pytest.mark.parametrize("reach", [0.0031, 0.9, 1.0, 8.7, 9.4, 240.0])
def test_an_axis_of_the_plane_has_numbers_enough_to_read_its_scale_and_few(reach: float) -> None:
    table = plane_table(["a", "b"])
    table["value"], table["second"] = (table["value"] / 255 * 2 - 1) * reach, table["second"] / 255 * reach
    for part in spec(drawn("class-plane", class_cones__plane=table))["concat"]:
        for axis in ("x", "y"):
            low, high = part["encoding"][axis]["scale"]["domain"]
            values = part["encoding"][axis]["axis"]["values"]
            assert 2 <= len(values) <= 5
            assert all(low <= value <= high for value in values)


def test_the_plane_says_which_layers_have_none() -> None:
    tables = {"class_cones": cones_table(["a", "b"]), "class_cones__plane": plane_table(["a", "b"]).query("layer != 1")}
    assert "in layer 1, so that" in FIGURES["class-plane"].caption_of(spec(drawn("class-plane", **tables)))
    tables["class_cones__plane"] = plane_table(["a", "b"])
    assert "no plane" not in FIGURES["class-plane"].caption_of(spec(drawn("class-plane", **tables)))


def test_each_projection_is_a_figure() -> None:
    table = plane_table(["a", "b"]).query("projection == 'pca'")
    assert drawn("class-plane", class_cones__plane=table) is not None
    assert drawn("class-plane-means", class_cones__plane=table) is None


def test_a_model_that_does_not_classify_is_never_wrong_and_a_class_called_minus_one_may_be() -> None:
    chart = drawn("class-plane", class_cones__plane=plane_table(["a", "b"], answers=False))
    assert {(row["predicted"], row["answer"]) for row in points_of(chart)} == {("none", "right")}
    assert "Hollow" not in FIGURES["class-plane"].caption_of(spec(chart))
    named = drawn("class-plane", class_cones__plane=plane_table(["-1", "1"]))
    assert {row["answer"] for row in points_of(named) if (row["gold"], row["predicted"]) == ("1", "-1")} == {"wrong"}
    assert "Hollow" in FIGURES["class-plane"].caption_of(spec(named))


@pytest.mark.parametrize(("layers", "runs"), [(1, 1), (3, 1), (13, 1), (49, 1), (13, 2), (13, 6), (4, 13)])
def test_the_plane_has_all_points_of_a_layer_and_says_which_layers_it_leaves_out(layers: int, runs: int) -> None:
    table = pd.concat([plane_table(["a", "b"], f"run {run}", layers) for run in range(runs)])
    chart = drawn("class-plane", class_cones__plane=table)
    points = points_of(chart)
    assert len(points) <= max(2400, runs * 256)
    panels = {point["panel"] for point in points}
    assert sum(f"layer {layers - 1} " in panel for panel in panels) == runs
    assert set(pd.Series([point["panel"] for point in points]).value_counts()) == {256}
    there = {int(panel.split("layer ")[1].split(" ")[0]) for panel in panels}
    said = FIGURES["class-plane"].caption_of(spec(chart)).partition("Layers ")[2].partition(" are left out")[0]
    assert {int(layer) for layer in said.split(", ") if layer} == set(range(layers)) - there
    assert (len(table) / 2 <= 2400) == (there == set(range(layers)))


def test_a_class_has_the_colour_that_it_has_in_the_boxes() -> None:
    tables = {"class_cones": cones_table(["z", "a"]), "class_cones.plane": plane_table(["a", "z"])}
    part = next(parts_of(FIGURES["class-plane"].draw(tables)))
    assert part["encoding"]["fill"]["scale"]["domain"] == ["z", "a"]


def test_of_many_classes_those_with_fewest_examples_share_a_mark() -> None:
    table = plane_table(names(20), layers=1, count=150)
    chart = drawn("class-plane", class_cones__plane=table)
    (part,) = parts_of(chart)
    domain = part["encoding"]["fill"]["scale"]["domain"]
    assert (len(domain), domain[-1]) == (14, "other classes")
    common = pd.Series([row["gold"] for row in points_of(chart)]).value_counts().drop("other classes")
    assert set(common.index) == set(names(10)) | set(domain[10:13])
    assert common.min() >= 7


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_classes_can_be_drawn_of_classes_and_runs_with_any_name(name: str) -> None:
    for classes in (HOSTILE[:2], HOSTILE):
        chart = drawn(name, **of_runs(["one", "x" * 5_000], classes))
        assert is_drawable(chart)
        assert not any("\u202e" in str(row) or "\x1b" in str(row) for row in rows_of(chart))
        assert is_drawable(drawn(name, **all_tables(classes)))


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_classes_says_how_it_is_read_and_what_a_mark_is(name: str) -> None:
    assert len(FIGURES[name].caption) > 100
    assert any("tooltip" in part["encoding"] for part in parts_of(drawn(name, **all_tables(["a", "b"]))))


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_of_two_classes_is_small(name: str) -> None:
    tables = all_tables(["negative", "positive"]) | {"class_cones__plane": plane_table(["negative", "positive"], layers=13)}
    limit = PLANE_BUDGET if "plane" in name else BUDGET
    assert size(name, {table.replace("__", "."): rows for table, rows in tables.items()}) < limit
