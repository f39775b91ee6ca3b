"""Figures of what is mixed in, and of a sweep of penalties."""

import json
from collections.abc import Callable
from itertools import product

import pandas as pd
import pytest

from conoscope.corpora import Example
from conoscope.figures import FIGURES, svg
from conoscope.figures.mixing import METHODS, POINTS
from conoscope.loading import LoadedModel
from conoscope.pipeline import measure
from drawings import BUDGET, channels, of_runs, rows, rows_of, size, spec_of

KINDS = ("cls", "sep", "punctuation", "other")
HOSTILE = "</script>\u202e" + "x" * 10_000


def norms(layers: int = 2, heads: int = 2, kinds: tuple[str, ...] = KINDS) -> pd.DataFrame:
    """By head, where nothing is to be drawn, shares and weights are -1."""
    each = [(layer, head, kind) for layer, head, kind in product(range(1, layers + 1), (*range(1, heads + 1), None), kinds)]
    table = pd.DataFrame(each, columns=["layer", "head", "kind"]).astype({"layer": "Int64", "head": "Int64"})
    place = table["kind"].map(kinds.index)
    whole = table["head"].isna()
    share = (place / 10 + table["layer"] / 1000).where(whole, -1).astype(float)
    return table.assign(value=1.5, share=share, weight=share.where(~whole, share + 0.5))


def tokens(layers: int = 2, heads: int = 2, kinds: tuple[str, ...] = KINDS) -> pd.DataFrame:
    each = [(layer, kind, number % heads + 1, number) for layer, kind, number in product(range(1, layers + 1), kinds, range(32))]
    table = pd.DataFrame(each, columns=["layer", "kind", "head", "number"])
    weight = table["number"] / 31
    return table.assign(value=2.34567, weight=weight, norm=weight * 2.34567).drop(columns="number")


def cancel_out(layers: int = 2, heads: int = 3, kinds: tuple[str, ...] = KINDS) -> pd.DataFrame:
    """Head h has a correlation of h / 100, all heads together -0.5, all layers together 0.9."""
    each = [(layer, head, kind, head / 100) for layer, head, kind in product(range(1, layers + 1), range(1, heads + 1), kinds)]
    each += [(layer, None, kind, -0.5) for layer, kind in product(range(1, layers + 1), kinds)]
    each += [(None, None, kind, 0.9) for kind in kinds]
    return pd.DataFrame(each, columns=["layer", "head", "kind", "value"]).astype({"layer": "Int64", "head": "Int64"})


def mixing(layers: int = 2, heads: int = 2, kinds: tuple[str, ...] = KINDS) -> pd.DataFrame:
    each = list(product(range(1, layers + 1), METHODS, (*kinds, "all")))
    table = pd.DataFrame(each, columns=["layer", "method", "kind"])
    value = 1 - table["method"].map(list(METHODS).index) / 10
    return table.assign(head=None, value=value.where(table["kind"] == "all", 0.125), sd=0.1, low=0.01, high=0.99)


def frequency(layers: int = 2, heads: int = 2, kinds: tuple[str, ...] = KINDS) -> pd.DataFrame:
    each = list(product((*range(1, layers + 1), None), ("norm", "weight"), ("corpus",), ("all", "content")))
    table = pd.DataFrame(each, columns=["layer", "what", "by", "tokens"]).astype({"layer": "Int64"})
    return table.assign(head=None, value=table["layer"].fillna(9) / 10, n=100)


MADE: dict[str, tuple[str, Callable[..., pd.DataFrame]]] = {
    "weights-and-norms": ("norms", norms),
    "weight-norm-scatter": ("norms.tokens", tokens),
    "cancel-out": ("norms.cancel_out", cancel_out),
    "mixing": ("mixing", mixing),
    "mixing-by-kind": ("mixing", mixing),
    "frequency": ("frequency", frequency),
}


@pytest.mark.parametrize("name", MADE)
def test_a_table_without_rows_has_no_figure(name: str) -> None:
    table, made = MADE[name]
    assert FIGURES[name].draw({table: made().iloc[:0]}) is None


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(("layers", "heads", "kinds"), [(1, 1, ("other",)), (12, 12, KINDS), (48, 2, (*KINDS, "mine"))])
def test_models_of_any_depth_fit_on_a_page(name: str, layers: int, heads: int, kinds: tuple[str, ...]) -> None:
    table, made = MADE[name]
    assert size(name, {table: made(layers, heads, kinds)}) < BUDGET


@pytest.mark.parametrize("name", MADE)
def test_colours_or_panels_tell_runs_apart_only_where_there_are_several(name: str) -> None:
    table, made = MADE[name]
    for names in (("run 1",), ("run 1", "run 2", "run 3")):
        found = spec_of(name, {table: of_runs(made(), *names)})
        shown = {name for name in names if name in json.dumps(found)}
        assert shown == (set(names) if len(names) > 1 else set())


@pytest.mark.parametrize("name", [name for name in MADE if name != "frequency"])
def test_hostile_kinds_and_runs_are_drawn(name: str) -> None:
    table, made = MADE[name]
    tables = {table: of_runs(made(kinds=("other", HOSTILE)), "one", "</script>")}
    assert "</script>" not in svg(FIGURES[name].draw(tables))
    assert all("\u202e" not in str(row) for row in rows(name, tables))


def test_shares_stand_beside_weights_of_all_heads_together_with_kinds_in_their_order() -> None:
    found = rows("weights-and-norms", {"norms": norms(kinds=("other", "mine", "cls"))})
    assert [row["panel"] for row in found[::4]] == ["[CLS]", "other tokens", "mine"]
    by_what = {(row["panel"], row["layer"], row["line"]): row["value"] for row in found}
    assert by_what["mine", 2, "what is mixed in"] == pytest.approx(0.102)
    assert by_what["mine", 2, "attention weight (dashed)"] == pytest.approx(0.602)
    assert len(found) == 3 * 2 * 2


def test_the_shares_and_the_weights_of_a_layer_sum_to_one(pure: LoadedModel) -> None:
    texts = [Example("the soup was cold, and we left."), Example("we loved it!")]
    found = pd.DataFrame(rows("weights-and-norms", measure(pure, texts, ["norms"]).tables))
    sums = found.groupby(["layer", "line"])["value"].sum()
    assert len(sums) == 3 * 2
    rounding = found["panel"].nunique() * 0.5e-5
    assert sums.tolist() == pytest.approx([1.0] * 6, abs=rounding)


def test_a_scatter_is_thinned_evenly_and_weights_of_zero_stay() -> None:
    found = pd.DataFrame(rows("weight-norm-scatter", {"norms.tokens": tokens(layers=24)}))
    caption = FIGURES["weight-norm-scatter"].caption_of(spec_of("weight-norm-scatter", {"norms.tokens": tokens(layers=24)}))
    assert f" {len(found)} of {len(tokens(layers=24))} sampled pairs are drawn" in caption
    assert POINTS / 2 < len(found) <= POINTS
    each = found.groupby(["layer", "kind"]).size()
    assert len(each) == 24 * len(KINDS)
    assert each.max() - each.min() <= 1
    assert found["weight"].min() == 0
    assert [channel["scale"] for channel in channels(spec_of("weight-norm-scatter", {"norms.tokens": tokens()}), "x")] == [
        {"type": "sqrt", "domain": [0, 1]}
    ]


def test_the_band_of_cancelling_out_goes_from_the_lowest_head_to_the_highest() -> None:
    found = rows("cancel-out", {"norms.cancel_out": cancel_out()})
    of_heads = [row for row in found if row["line"] == "mean over heads"]
    assert {(row["value"], row["low"], row["high"]) for row in of_heads} == {(0.02, 0.01, 0.03)}
    assert {row["value"] for row in found if row["line"] == "all heads together (dashed)"} == {-0.5}
    assert {row["layer"] for row in found} == {1, 2}


def test_of_one_head_there_is_one_line_without_a_band_or_a_legend() -> None:
    tables = {"norms.cancel_out": cancel_out(heads=1)}
    found = rows("cancel-out", tables)
    assert len(found) == 2 * len(KINDS)
    assert all("low" not in row for row in found)
    assert {channel["legend"] for channel in channels(spec_of("cancel-out", tables), "color")} == {None}


def test_one_line_of_two_is_dashed_and_of_one_run_its_symbol_is_not() -> None:
    table = norms()
    picture = svg(FIGURES["weights-and-norms"].draw({"norms": table}))
    assert picture.count('stroke-dasharray="5,4"') == len(KINDS)
    assert {row["line"] for row in rows("weights-and-norms", {"norms": table}) if row["dashed"]} == {"attention weight (dashed)"}
    assert svg(FIGURES["weights-and-norms"].draw({"norms": of_runs(table, "a", "b")})).count('"5,4"') == 2 * len(KINDS) + 1


def test_a_kind_without_correlation_has_no_point() -> None:
    table = cancel_out()
    table.loc[(table["layer"] == 1) & (table["kind"] == "cls"), "value"] = None
    found = {(row["panel"], row["layer"]) for row in rows("cancel-out", {"norms.cancel_out": table})}
    assert ("[CLS]", 1) not in found
    assert ("[CLS]", 2) in found


def test_mixing_ratios_are_of_all_kinds_together_from_what_counts_least_to_most() -> None:
    found = rows("mixing", {"mixing": mixing()})
    assert [row["line"] for row in found if row["layer"] == 1] == list(METHODS.values())
    assert [row["value"] for row in found if row["layer"] == 2] == [1, 0.9, 0.8, 0.7, 0.6]


def test_kinds_are_compared_by_the_method_that_counts_most() -> None:
    table = of_runs(mixing(), "full", "short")
    table = table[(table["run"] == "full") | ~table["method"].isin(["attnres_n", "attnresln_n"])]
    found = {(row["line"], row["method"]) for row in rows("mixing-by-kind", {"mixing": table})}
    assert found == {("full", METHODS["attnresln_n"]), ("short", METHODS["attnres_w"])}


def test_ranks_are_named_only_where_there_are_two_kinds_of_them() -> None:
    table = frequency()
    same = spec_of("frequency", {"frequency": table})
    assert len(rows_of(same)) == 2 * 2
    assert FIGURES["frequency"].caption_of(same).endswith("Special tokens make no difference here.")
    table.loc[table["tokens"] == "content", "value"] += 0.01
    assert {row["panel"] for row in rows("frequency", {"frequency": table})} == {"all tokens", "without special tokens"}
    both = pd.concat([table, table.assign(by="file")])
    found = {row["panel"] for row in rows("frequency", {"frequency": both})}
    assert "all tokens, ranks of a file" in found
    assert len(found) == 4
    assert {row["layer"] for row in rows("frequency", {"frequency": table})} == {1, 2}


def sweep(penalties: dict[str, float | None], **more: object) -> dict[str, pd.DataFrame]:
    """Of each run the entropy from [CLS] is one less its penalty, in two layers of two heads that differ by 0.2."""
    each = [(run, layer, head) for run, layer, head in product(penalties, (1, 2), (1, 2))]
    table = pd.DataFrame(each, columns=["run", "layer", "head"]).astype({"head": "Int64"})
    entropy = table.assign(row="cls", value=[1 - (penalties[run] or 0) + (0.1 if head == 1 else -0.1) for run, _, head in each])
    runs = pd.DataFrame({"run": list(penalties), "entropy_penalty": list(penalties.values()), **more})
    key = table.assign(site="key", value=3.0)
    whole = key.assign(head=None, value=99.0)
    accuracy = pd.DataFrame({"run": list(penalties), "head": None, "representative": "mean", "control": "none", "value": 0.5})
    return {
        "runs": runs,
        "attention_entropy": entropy,
        "sim": pd.concat([key, whole]),
        "class_cones.nearest": accuracy.assign(model=0.875),
    }


def test_a_sweep_has_a_point_for_each_run_the_mean_over_layers_and_heads() -> None:
    found = rows("penalty-sweep", sweep({"a": 0.0, "b": 0.25, "c": 0.25}))
    entropy = {row["run"]: row["value"] for row in found if row["panel"] == "attention entropy, classifying token"}
    assert entropy == {"a": 1.0, "b": 0.75, "c": 0.75}
    assert {row["value"] for row in found if row["panel"] == "SIM of keys"} == {3.0}
    assert {row["value"] for row in found if row["panel"] == "accuracy"} == {0.875}
    assert {row["panel"] for row in found} == {"attention entropy, classifying token", "SIM of keys", "accuracy"}


def test_the_line_of_a_sweep_is_the_mean_of_the_runs_that_share_a_penalty_and_zero_stands_first() -> None:
    found = spec_of("penalty-sweep", sweep({"a": 0.5, "b": 0.0}))
    assert {channel["type"] for channel in channels(found, "x")} == {"ordinal"}
    assert {(channel["field"], channel.get("aggregate")) for channel in channels(found, "y")} == {
        ("value", "mean"),
        ("value", None),
    }
    picture = svg(FIGURES["penalty-sweep"].draw(sweep({"a": 0.5, "b": 0.0})))
    assert picture.index(">0</text>") < picture.index(">0.5</text>")


@pytest.mark.parametrize("penalties", [{}, {"a": 0.1}, {"a": 0.1, "b": 0.1}, {"a": 0.1, "b": None}, {"a": None, "b": None}])
def test_without_two_penalties_there_is_no_sweep(penalties: dict[str, float | None]) -> None:
    assert FIGURES["penalty-sweep"].draw(sweep(penalties)) is None


def test_runs_that_differ_by_more_than_the_penalty_are_on_lines_of_their_own() -> None:
    penalties = {"a": 0.0, "b": 0.1, "c": 0.0, "d": 0.1}
    found = rows("penalty-sweep", sweep(penalties, layers=[1, 1, 2, 2], corpus="bistro", vectors=None))
    assert {(row["run"], row["group"]) for row in found} == {
        ("a", "layers 1"),
        ("b", "layers 1"),
        ("c", "layers 2"),
        ("d", "layers 2"),
    }


def test_a_run_that_was_gathered_from_two_folders_counts_once() -> None:
    tables = sweep({"a": 0.0, "b": 0.1})
    again = {**tables, "runs": pd.concat([tables["runs"], tables["runs"]])}
    assert rows("penalty-sweep", again) == rows("penalty-sweep", tables)
