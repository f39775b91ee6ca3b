"""Judging over seeds: intervals, published figures, verdicts, contrasts; and the figures of it."""

import math

import pandas as pd
import pytest
from scipy import stats

from conoscope.studies.base import Claim, Published
from conoscope.studies.contrasts import correlation, difference
from conoscope.studies.judging import averaged, compared, interval, judged, t_quantile
from drawings import HOSTILE, drawn, is_drawable, rows_where


def rows(*values: float, **keys: object) -> pd.DataFrame:
    return pd.DataFrame([{**keys, "seed": seed, "value": value} for seed, value in enumerate(values)])


PRINTED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 19: 2.093, 30: 2.042, 40: 2.021, 120: 1.980, 10**6: 1.960}
"""97.5 % of Student's t, as tables in books have it."""


@pytest.mark.parametrize("freedom", PRINTED)
def test_quantiles_are_those_of_student(freedom: int) -> None:
    assert t_quantile(freedom) == pytest.approx(PRINTED[freedom], abs=5.1e-4)


def test_an_interval_is_that_of_student_and_needs_three_seeds() -> None:
    values = [0.1, 0.4, 0.3, 0.2]
    expected = stats.t.interval(0.95, 3, loc=0.25, scale=stats.sem(values))
    assert interval(values) == pytest.approx(expected)
    assert interval(values[:2]) is None


def test_means_are_over_seeds_and_of_nothing_else() -> None:
    found = averaged(pd.concat([rows(1, 2, 3, quantity="a", layer=1.0), rows(5, 7, quantity="b")], ignore_index=True))
    assert found[["quantity", "mean", "n"]].values.tolist() == [["a", 2.0, 3], ["b", 6.0, 2]]
    assert found["sd"].tolist() == pytest.approx([1.0, math.sqrt(2)])
    assert found["values"][1] == {"0": 5.0, "1": 7.0}


def test_a_published_figure_holds_where_a_further_run_of_ours_could_lie() -> None:
    means = averaged(rows(0.4, 0.5, 0.6, quantity="a"))
    reach = 4.303 * 0.1 * math.sqrt(4 / 3)
    within = {0.5 + reach - 1e-3: "yes", 0.5 + reach + 1e-3: "no", 0.5 - reach + 1e-3: "yes"}
    found = compared(means, [Published({"quantity": "a"}, value, "N") for value in within])
    assert found["holds"].tolist() == list(within.values())
    wide = compared(means, [Published({"quantity": "a"}, 0.5 + reach + 0.01, "F", tolerance=0.02)])
    assert wide["holds"].tolist() == ["yes"]
    assert compared(averaged(rows(0.4, 0.5, quantity="a")), [Published({"quantity": "a"}, 0.4, "N")])["holds"].tolist() == [
        "too few seeds"
    ]
    assert compared(means, [Published({"quantity": "b"}, 0.5, "N"), Published({"depth": 1}, 0.5, "N")]).empty


@pytest.mark.parametrize(
    ("cases", "answer"),
    [
        ({"a": [1, 1.1, 0.9], "b": [2, 2.1, 1.9]}, "holds"),
        ({"a": [1, 1.1, 0.9], "b": [-2, -2.1, -1.9]}, "holds in 1 of 2 cases"),
        ({"a": [1, 1.1, 0.9], "b": [-2, 3, 0.1]}, "holds in 1 of 2 cases"),
        ({"a": [-1, -1.1, -0.9]}, "does not hold"),
        ({"a": [-2, 3, 0.1]}, "unclear"),
        ({"a": [-2, 3, 0.1], "b": [-1, -1.1, -0.9]}, "unclear"),
        ({"a": [1, 1.1], "b": [1]}, "cannot be told"),
        ({"a": [1, 1.1, 0.9], "b": [1]}, "holds in 1 of 2 cases"),
        ({}, "cannot be told"),
    ],
)
def test_a_claim_holds_where_its_interval_lies_above_the_bound(cases: dict[str, list[float]], answer: str) -> None:
    frame = pd.concat([pd.DataFrame(columns=["case", "seed", "value"]), *(rows(*v, case=k) for k, v in cases.items())])
    frame = frame.astype({"value": float})
    assert judged(Claim("c", "…", lambda _: frame), pd.DataFrame()).answer == answer


def test_a_case_says_in_how_many_seeds_it_lies_above_the_bound() -> None:
    (case,) = judged(Claim("c", "…", lambda _: rows(0.4, 0.6, 0.7, case="a"), above=0.5), pd.DataFrame()).cases
    assert (case.above, case.seeds, case.answer) == (2, 3, "unclear")


def test_a_difference_pairs_seeds_and_leaves_out_what_has_no_partner() -> None:
    more, less = rows(3, 4, 5, corpus="x", layers=2), rows(1, 1, corpus="x", layers=2)
    found = difference(more, less, ("corpus", "layers"))
    assert found.values.tolist() == [["x, layers 2", 0, 2], ["x, layers 2", 1, 3]]
    assert difference(more, rows(1, corpus="y", layers=2), ("corpus", "layers")).empty


def test_a_correlation_is_spearmans_of_each_seed() -> None:
    ones, others = {0: [1.0, 5.0, 2.0, 9.0], 1: [1.0, 2.0, 3.0, 4.0]}, {0: [3.0, 3.0, 4.0, 1.0], 1: [4.0, 3.0, 2.0, 1.0]}
    long = [
        {"corpus": "x", "seed": seed, "penalty": place, "quantity": name, "value": value}
        for name, values in (("a", ones), ("b", others))
        for seed, row in values.items()
        for place, value in enumerate(row)
    ]
    found = correlation(pd.DataFrame(long), "a", "b", ("penalty",), ("corpus",)).set_index("seed")["value"]
    assert found[0] == pytest.approx(stats.spearmanr(ones[0], others[0]).statistic)
    assert found[1] == pytest.approx(-1)


def published(what: str = "w", **more: object) -> pd.DataFrame:
    numbers = {"published": 0.5, "ours": 0.6, "sd": 0.1, "n": 5, "holds": "yes"}
    return pd.DataFrame([{"what": what, "corpus": "x", "quantity": "sim.key", **numbers, **more}])


def case(name: str = "a", **more: object) -> dict[str, object]:
    numbers = {"mean": 0.2, "low": 0.1, "high": 0.3, "above": 5, "seeds": 5, "answer": "yes", "bound": 0.0}
    return {"claim": "deeper", "case": name, **numbers, **more}


def test_published_figures_are_drawn_with_the_spread_of_ours_and_a_diagonal() -> None:
    chart = drawn("published-and-ours", study__published=published())
    (point,) = rows_where(chart, line=False)
    assert (point["published"], point["ours"], point["low"], point["high"]) == (0.5, 0.6, 0.5, 0.7)
    assert [(end["published"], end["ours"]) for end in rows_where(chart, line=True)] == [(0.5, 0.5), (0.7, 0.7)]
    assert is_drawable(chart)


def test_claims_are_drawn_with_their_intervals_and_their_bound() -> None:
    few = case("b", low=None, high=None, answer="too few seeds", bound=0.5)
    chart = drawn("claims", study__claims=pd.DataFrame([case(), few]))
    (row,) = rows_where(chart, case="a")
    assert (row["mean"], row["low"], row["high"], row["bound"]) == (0.2, 0.1, 0.3, 0.0)
    assert rows_where(chart, case="b")[0]["low"] is None
    assert is_drawable(chart)


def test_studies_beside_each_other_and_hostile_names_are_drawn() -> None:
    claims = pd.DataFrame([{**case(name), "run": run, "claim": name} for name in HOSTILE for run in ("one", "two")])
    assert is_drawable(drawn("claims", study__claims=claims))
    figures = pd.concat([published(name, run=run, corpus=name) for name in HOSTILE for run in ("one", "two")], ignore_index=True)
    assert is_drawable(drawn("published-and-ours", study__published=figures))
    plain = published().drop(columns=["corpus", "quantity", "sd"])
    assert is_drawable(drawn("published-and-ours", study__published=plain))
