"""Curves by layer: what is drawn is what the tables say."""

import math
from typing import Any

import pandas as pd
import pytest

from conoscope.figures import FIGURES
from conoscope.figures.lines import curve, over_heads, with_interval
from conoscope.figures.marks import colours_of, columns_of, shapes_of, shown
from drawings import HOSTILE, channels, drawn, frame, is_drawable, marks_of, panels_of, parts_of, rows_of, rows_where


def sim_table(run: str = "", layers: int = 2, heads: int = 2, whole: bool = True) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for layer in range(layers + 1):
        more = {"run": run, "layer": layer, "sd": 0.2, "n": 100, "baseline": 0.05 * layer}
        rows.append({**more, "site": "hidden", "head": None, "value": 0.1 * layer})
        if layer and whole:
            rows.append({**more, "site": "key", "head": None, "value": 0.5})
        rows += [{**more, "site": "key", "head": head, "value": 0.3 + 0.1 * head} for head in range(1, heads + 1) if layer]
    return frame(rows)


def entropy_table(heads: int = 3, run: str = "") -> pd.DataFrame:
    rows = [
        {"run": run, "site": "weights", "layer": 1, "head": head, "row": row, "value": 0.2 * head, "sd": 0.1, "n": 10}
        for row in ("all", "cls", "cls_to_others")
        for head in range(1, heads + 1)
    ]
    return frame(rows)


def stream_table(run: str = "", forward: bool = True) -> pd.DataFrame:
    numbers = {"residual_share": 0.5, "attention_share": 0.2, "cosine": 0.5, "cka": 0.9, "kurtosis": 3.0, "mean": 0.0}
    numbers |= {"forward_share": 0.3} if forward else {}
    return frame(
        [
            {"run": run, "site": "hidden", "layer": layer, "head": None, "what": what, "value": value, "n": 400}
            | {"sd": math.nan if what == "cka" else 0.1}
            for layer in (1, 2)
            for what, value in numbers.items()
        ]
    )


def capacity_table(run: str = "", classes: tuple[int, ...] = (2, 3, 4)) -> pd.DataFrame:
    more = {"run": run, "head": None, "sd": 0.1, "n": 32, "mean": 0.1, "random": 0.05, "width": 64}
    return frame(
        [
            {**more, "site": site, "layer": layer, "classes": count, "value": 0.1 * layer, "simplex": -1 / (count - 1)}
            for site in ("hidden", "key")
            for layer in (1, 2)
            for count in classes
        ]
    )


def words_tables(run: str = "") -> dict[str, pd.DataFrame]:
    whole = {"run": run, "site": "hidden", "head": None, "sd": 0.1, "n": 64, "baseline": 0.1}
    part = [{**whole, "layer": layer, "value": 0.8} for layer in (0, 1)]
    keys = [{**whole, "site": "key", "head": 1, "layer": 1, "value": 0.5}]
    return {"self_sim": frame(part), "intra_sim": frame(part + keys), "max_explained_variance": frame(part)}


def rank_table(run: str = "") -> pd.DataFrame:
    rows = [{"run": run, "site": "hidden", "layer": 1, "head": None, "value": 32.0, "sd": None, "n": 999, "width": 64}]
    rows += [
        {"run": run, "site": "key", "layer": 1, "head": head, "value": 4.0 * head, "sd": None, "n": 99, "width": 16}
        for head in (1, 2)
    ]
    return frame(rows)


def path_table(run: str = "") -> pd.DataFrame:
    rows = [
        {
            "run": run,
            "site": "hidden",
            "layer": layer,
            "head": None,
            "towards": towards,
            "value": sign * layer,
            "sd": None,
            "n": 9,
        }
        for layer in (0, 1)
        for towards, sign in (("own", 0.5), ("other", -0.5))
    ]
    return frame(rows)


def cone_table(run: str = "") -> pd.DataFrame:
    rows = [{"run": run, "site": "hidden", "layer": 1, "head": None, "value": 9.0, "sd": 2.0, "n": 50, "share": 0.6}]
    rows += [
        {"run": run, "site": "context", "layer": 1, "head": head, "value": 9.0, "sd": 2.0, "n": 50, "share": 0.2 * head}
        for head in (1, 2)
    ]
    return frame(rows)


def all_tables(run: str = "") -> dict[str, pd.DataFrame]:
    return {
        "sim": sim_table(run),
        "attention_entropy": entropy_table(run=run),
        "effective_rank": rank_table(run),
        "cone_index": cone_table(run),
        **words_tables(run),
        "stream": stream_table(run),
        "stream__path": path_table(run),
        "capacity": capacity_table(run),
    }


NAMES = [
    "sim", "entropy", "effective-rank", "cone-index", "word-cones", "stream", "layer-turns", "kurtosis",
    "class-path", "capacity",
]  # fmt: skip


def test_of_one_run_each_site_is_a_line_in_one_panel_and_the_band_is_the_interval_of_the_mean() -> None:
    chart = drawn("sim", sim=sim_table())
    (row,) = rows_where(chart, line="hidden states", layer=2)
    assert row["value"] == pytest.approx(0.2)
    assert (row["low"], row["high"]) == pytest.approx((0.2 - 1.96 * 0.02, 0.2 + 1.96 * 0.02))
    assert {row["line"] for row in rows_of(chart)} == {"hidden states", "keys"}
    (whole,) = rows_where(chart, line="keys", layer=1)
    assert whole["value"] == 0.5
    assert marks_of(chart) == ["area", "line", "line", "point"]
    assert [part["encoding"]["color"]["field"] for part in parts_of(chart)] == ["line"] * 4


@pytest.mark.parametrize("runs", [1, 2])
def test_the_baseline_of_a_line_of_one_layer_is_a_stroke(runs: int) -> None:
    chart = drawn("sim", sim=pd.concat([sim_table(f"run {number}", layers=1) for number in range(runs)]))
    assert {row["line" if runs == 1 else "panel"] for row in rows_where(chart, alone=True)} == {"keys"}
    (stroke,) = [part for part in parts_of(chart) if part["mark"].get("shape") == "stroke"]
    assert [step["filter"] for step in stroke["transform"] if "filter" in step] == ["datum.alone"]
    assert stroke["encoding"]["y"]["field"] == "baseline"


def test_a_site_that_is_measured_by_head_alone_shows_the_mean_over_heads_from_the_lowest_to_the_highest() -> None:
    (row,) = rows_where(drawn("sim", sim=sim_table(whole=False)), line="keys", layer=1)
    assert (row["value"], row["low"], row["high"]) == pytest.approx((0.45, 0.4, 0.5))


def test_of_several_runs_each_site_is_a_panel_and_each_run_a_line() -> None:
    chart = drawn("sim", sim=pd.concat([sim_table("one"), sim_table("two", layers=4)]))
    assert panels_of(chart) == ["hidden states", "keys"]
    assert {row["line"] for row in rows_of(chart)} == {"one", "two"}
    assert len(rows_where(chart, panel="hidden states", line="two")) == 5


def test_of_one_run_there_is_no_word_of_the_run() -> None:
    assert not any("a-run" in str(row) for row in rows_of(drawn("sim", sim=sim_table("a-run"))))


def test_a_band_of_one_layer_is_a_rule() -> None:
    assert "rule" in marks_of(drawn("sim", sim=sim_table(layers=0)))
    assert "rule" not in marks_of(drawn("sim", sim=sim_table(layers=2).query("site == 'hidden'")))


def test_the_axis_spans_what_is_asked_and_all_that_is_drawn() -> None:
    below = frame([{"run": "", "line": "a", "layer": 1, "value": -0.4, "sd": 1.0, "n": 100}])
    (part, *_) = parts_of(curve({}, with_interval(below), "cosine"))
    assert part["encoding"]["y"]["scale"]["domain"] == pytest.approx([-0.4 - 0.196, 1])


def test_without_rows_there_is_no_curve() -> None:
    assert curve({}, frame([{"run": "", "line": "a", "layer": 1, "value": 0.1}]).iloc[:0], "cosine") is None


def test_whole_vectors_are_not_counted_among_heads() -> None:
    (row,) = over_heads(sim_table(layers=1), "site").to_dict("records")
    assert (row["value"], row["heads"]) == (pytest.approx(0.45), 2)


def test_entropy_is_the_mean_over_heads_for_each_kind_of_row() -> None:
    rows = rows_of(drawn("entropy", attention_entropy=entropy_table()))
    assert [row["line"] for row in rows] == ["all tokens", "[CLS] or last token", "the same, to others"]
    assert all((row["value"], row["low"], row["high"]) == pytest.approx((0.4, 0.2, 0.6)) for row in rows)


def test_effective_rank_is_a_share_of_the_width_and_has_no_interval_but_over_heads() -> None:
    chart = drawn("effective-rank", effective_rank=rank_table())
    (whole,), (heads,) = rows_where(chart, line="hidden states"), rows_where(chart, line="keys")
    assert (whole["value"], whole["low"], whole["width"], whole["vectors"]) == (0.5, None, 64, 999)
    assert (heads["value"], heads["low"], heads["high"], heads["width"]) == (0.375, 0.25, 0.5, 16)


def test_the_cone_index_is_drawn_as_a_share_of_the_vectors() -> None:
    chart = drawn("cone-index", cone_index=cone_table())
    (whole,), (heads,) = rows_where(chart, line="hidden states"), rows_where(chart, line="heads")
    assert (whole["value"], whole["low"]) == (0.6, None)
    assert (heads["value"], heads["low"], heads["high"]) == pytest.approx((0.3, 0.2, 0.4))


def test_words_are_drawn_of_hidden_states_beside_their_baselines_with_whatever_tables_there_are() -> None:
    tables = words_tables()
    rows = rows_of(drawn("word-cones", **tables))
    assert len(rows) == 6
    assert {row["baseline"] for row in rows} == {0.1}
    assert {row["line"] for row in rows_of(drawn("word-cones", self_sim=tables["self_sim"]))} == {"a word in its places"}


def test_shares_are_stacked_to_one_in_a_panel_for_each_run() -> None:
    chart = drawn("stream", stream=stream_table())
    assert sum(row["value"] for row in rows_where(chart, layer=1)) == pytest.approx(1)
    assert [row["line"] for row in rows_where(chart, layer=1)] == ["what was there", "attention", "feed-forward part"]
    two = drawn("stream", stream=pd.concat([stream_table("one"), stream_table("two", forward=False)]))
    assert panels_of(two) == ["one", "two"]
    assert drawn("stream", stream=stream_table().query("what == 'mean'")) is None


def test_a_turn_has_an_interval_and_an_angle_and_cka_has_neither() -> None:
    chart = drawn("layer-turns", stream=stream_table())
    (turn,) = rows_where(chart, line="cosine of a token's vectors", layer=1)
    (cka,) = rows_where(chart, line="CKA of all tokens", layer=1)
    assert (turn["value"], turn["low"], turn["degrees"]) == pytest.approx((0.5, 0.5 - 1.96 * 0.005, 60))
    assert (cka["value"], cka["low"], cka["degrees"]) == (0.9, None, None)


def test_kurtosis_is_drawn_alone() -> None:
    assert {row["value"] for row in rows_of(drawn("kurtosis", stream=stream_table()))} == {3.0}
    low = stream_table().assign(value=-0.2, sd=0.0)
    assert {tuple(y["scale"]["domain"]) for y in channels(drawn("kurtosis", stream=low), "y")} == {(-0.2, 0)}


def test_the_path_is_own_minus_other_with_both_cosines_on_hovering_and_a_line_for_each_run() -> None:
    chart = drawn("class-path", stream__path=pd.concat([path_table("one"), path_table("two")]))
    found = rows_where(chart, line="one")
    assert [(row["value"], row["own"], row["other"]) for row in found] == [(0, 0, 0), (1, 0.5, -0.5)]
    assert {row["line"] for row in rows_of(chart)} == {"one", "two"}
    assert "area" not in marks_of(chart)
    near = path_table()
    near["value"] = 0.99999 + 1e-6 * near["value"]
    assert [row["value"] for row in rows_of(drawn("class-path", stream__path=near))] == pytest.approx([0, 1e-6], abs=1e-8)


def test_capacity_is_of_the_last_layer_with_both_bounds_for_each_run() -> None:
    chart = drawn("capacity", capacity=pd.concat([capacity_table("one"), capacity_table("two", (2,))]))
    assert [part["encoding"]["y"]["field"] for part in parts_of(chart)] == ["value", "simplex", "random", "value"]
    assert {row["layer"] for row in rows_of(chart)} == {2}
    assert [row["simplex"] for row in rows_where(chart, run="one")] == [-1, -0.5, pytest.approx(-1 / 3, abs=1e-5)]
    assert drawn("capacity", capacity=capacity_table().query("site == 'key'")) is None


def test_capacity_of_two_classes_is_one_number_and_no_figure() -> None:
    assert drawn("capacity", capacity=capacity_table(classes=(2,))) is None
    both = drawn("capacity", capacity=pd.concat([capacity_table("one"), capacity_table("two", (2,))]))
    assert {row["run"] for row in rows_of(both)} == {"one"}


@pytest.mark.parametrize("name", NAMES)
def test_every_curve_can_be_drawn_of_one_run_and_of_runs_with_any_name(name: str) -> None:
    assert is_drawable(drawn(name, **all_tables()))
    parts = [all_tables(run) for run in HOSTILE]
    together = {table: pd.concat([part[table] for part in parts]) for table in parts[0]}
    chart = drawn(name, **together)
    assert is_drawable(chart)
    assert not any("\u202e" in str(row) or "\x1b" in str(row) for row in rows_of(chart))


@pytest.mark.parametrize("name", NAMES)
def test_every_curve_says_how_it_is_read_and_what_a_point_is(name: str) -> None:
    assert len(FIGURES[name].caption) > 100
    assert any("tooltip" in part["encoding"] for part in parts_of(drawn(name, **all_tables())))


def test_names_are_cut_and_yet_told_apart() -> None:
    names = shown(HOSTILE)
    assert len(set(names.values())) == len(HOSTILE)
    assert max(map(columns_of, names.values())) <= 40
    assert (names[""], names["null"]) == ("(empty)", "null")
    assert shown(["a", "b"]) == {"a": "a", "b": "b"}


def test_forty_two_names_have_marks_of_their_own() -> None:
    names = [str(number) for number in range(43)]
    marks = list(zip(colours_of(names), shapes_of(names), strict=True))
    assert len(set(marks[:42])) == 42
    assert marks[42] == marks[0]
