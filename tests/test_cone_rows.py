"""Rows on cones and anisotropy that studies share, from invented tables."""

from typing import Any, cast

import pandas as pd

from conoscope.results.result import Result
from conoscope.studies.published.anisotropy_rows import anisotropy_rows
from conoscope.studies.published.cone_rows import cone_rows, example_rows


class Tables:
    """A result that has these tables and nothing else."""

    def __init__(self, **tables: pd.DataFrame) -> None:
        self.tables = {name.replace("__", "."): table for name, table in tables.items()}

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{"site": "hidden", "layer": 2, "head": None, "representative": "mean", **row} for row in rows])


def result(**more: pd.DataFrame) -> Result:
    """A result of two classes, and further tables."""
    cones = table(*({"representative": "held_out", "class": one, "gold": two, "value": 0.9 if one == two else 0.1, "q50": 0.5}
                    for one in "ab" for two in "ab"))  # fmt: skip
    nearest = table({"representative": "held_out", "control": "none", "value": 0.8, "agreement": 0.95, "chance": 0.5})
    between = table({"class": "a", "other_class": "b", "value": -0.4})
    found = {"class_cones": cones, "class_cones__nearest": nearest, "class_cones__between": between, **more}
    return cast("Result", Tables(**found))


def by_quantity(rows: Any) -> dict[str, float]:
    return {row["quantity"]: row["value"] for row in rows}


def test_cosines_between_classes_are_by_pair_where_few_and_the_largest_is_without_its_sign() -> None:
    found = by_quantity(cone_rows("after", result()))
    assert (found["cosine.between"], found["cosine.largest"], found["cosine.own"]) == (-0.4, 0.4, 0.9)
    pairs = [(one, two) for one in range(5) for two in range(one)]
    many = table(*({"class": one, "other_class": two, "value": 0.01 * one - 0.05 * (two == 0)} for one, two in pairs))
    found = by_quantity(cone_rows("after", result(class_cones__between=many)))
    assert "cosine.between" not in found
    assert round(found["cosine.largest"], 6) == 0.04


def test_without_a_models_answers_there_are_no_rows_that_need_them() -> None:
    assert by_quantity(cone_rows("after", result()))["agreement"] == 0.95
    found = by_quantity(cone_rows("before", result(), answers=False))
    assert found["nearest"] == 0.8
    assert not {"agreement", "share.nearest", "median.hidden"} & set(found)


def test_examples_are_kept_by_name_and_cosine_three_on_each_side() -> None:
    rows = [
        {"representative": kind, "class": "a", "side": side, "place": place, "value": 1 - 0.1 * place, "gold": gold,
         "predicted": "a", "example": f"c:test:{place}"}
        for kind in ("first", "mean") for side, gold in (("nearest", "a"), ("farthest", "b")) for place in range(1, 6)
    ]  # fmt: skip
    found = result(class_cones__examples=table(*rows))
    kept = list(example_rows("after", found))
    assert len(kept) == 6
    assert {(row["quantity"], row["gold"]) for row in kept} == {("cosine.nearest", "a"), ("cosine.farthest", "b")}
    keys = {"stage": "after", "quantity": "cosine.nearest", "class": "a", "gold": "a", "place": 1}
    assert kept[0] == {**keys, "example": "c:test:1", "value": 0.9}
    shares = by_quantity(cone_rows("after", found))
    assert (shares["share.nearest"], shares["share.farthest"]) == (1, 0)


def test_a_result_without_examples_has_no_rows_of_them() -> None:
    assert list(example_rows("after", result())) == []
    assert "share.nearest" not in by_quantity(cone_rows("after", result()))


def test_sim_is_by_layer_in_the_last_and_on_average_and_dimensions_are_a_share_of_the_width() -> None:
    sim = table(*({"site": site, "layer": layer, "value": 0.1 * layer} for site in ("hidden", "key") for layer in (1, 2, 3)))
    ranks = table(*({"layer": layer, "value": 10.0 * layer, "width": 40, "n": 400} for layer in (1, 3)))
    found = cast("Result", Tables(sim=sim, effective_rank=ranks, participation_ratio=ranks.assign(value=4.0)))
    rows = list(anisotropy_rows("after", found))
    assert [row["value"] for row in rows if row["quantity"] == "sim.key"] == [0.1, 0.2, 0.1 * 3]
    kept = by_quantity(rows)
    assert (kept["sim.hidden.last"], round(kept["sim.hidden.mean"], 6)) == (0.1 * 3, 0.2)
    assert (kept["share.effective_rank"], kept["share.participation_ratio"], kept["vectors per dimension"]) == (0.75, 0.1, 10)
    assert not any(row["quantity"].startswith("sim.value") for row in rows)
