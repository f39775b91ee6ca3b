"""Judging over seeds: intervals, published figures, verdicts, contrasts; and the figures of it."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from conoscope.common.errors import MeasureError
from conoscope.figures import FIGURES
from conoscope.studies import STUDIES
from conoscope.studies.base import BOUNDS, Claim, Published
from conoscope.studies.contrasts import correlation, difference
from conoscope.studies.intervals import Scale, interval, poisson, prediction, t_quantile
from conoscope.studies.judging import Case, averaged, compared, judged
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


SHARES = [0.91, 0.99, 0.95, 0.97, 0.999]
CORRELATIONS = [0.9, -0.2, 0.99, 0.7]


def test_an_interval_of_shares_is_students_of_their_logits_and_stays_between_0_and_1() -> None:
    low, high = stats.t.interval(0.95, 4, loc=special.logit(SHARES).mean(), scale=stats.sem(special.logit(SHARES)))
    found = interval(SHARES, Scale((0, 1)))
    assert found == pytest.approx((special.expit(low), special.expit(high)))
    assert found is not None
    assert 0 < found[0] < found[1] < 1
    assert (plain := interval(SHARES)) is not None
    assert plain[1] > 1


def test_an_interval_of_correlations_is_students_of_fishers_z_and_stays_between_minus_1_and_1() -> None:
    z = np.arctanh(CORRELATIONS)
    expected = np.tanh(stats.t.interval(0.95, 3, loc=z.mean(), scale=stats.sem(z)))
    assert interval(CORRELATIONS, Scale((-1, 1))) == pytest.approx(tuple(expected))
    # Differences of cosines: the same, twice as wide.
    doubled = interval([2 * value for value in CORRELATIONS], Scale((-2, 2)))
    assert doubled == pytest.approx(tuple(2 * expected))


def test_a_value_at_an_end_counts_as_half_a_text_away_from_it() -> None:
    texts = 200
    moved = special.logit([1 - 0.5 / texts, 0.98, 0.99])
    low, high = special.expit(stats.t.interval(0.95, 2, loc=moved.mean(), scale=stats.sem(moved)))
    assert interval([1.0, 0.98, 0.99], Scale((0, 1), texts)) == pytest.approx((low, high))
    assert interval([1.0, 1.0, 1.0], Scale((0, 1), texts)) == pytest.approx((1 - 0.5 / texts, 1.0))
    assert interval([-1.0, -1.0, -1.0], Scale((-1, 1), texts)) == pytest.approx((-1.0, -1 + 1 / texts))


def test_an_interval_of_what_moves_in_coarse_steps_is_plain_and_cut_to_its_range() -> None:
    values = [1.0, 1.0, 0.9, 1.0, 0.6]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert high > 1
    assert interval(values, Scale((-1, 1), 999, coarse=True)) == pytest.approx((low, 1.0))
    claim = Claim("c", "…", lambda _: rows(*values, case="a"), above=0.7, within=(-1, 1), coarse=True)
    (case,) = judged(claim, rows(1), texts=999).cases
    assert (case.passing.low, case.passing.high) == pytest.approx((low, 1.0))
    with pytest.raises(MeasureError, match="outside the range"):
        interval([1.2, 0.3, 0.1], Scale((0, 1), coarse=True))


def test_an_interval_of_rank_correlations_over_five_points_mostly_has_their_mean_in_it() -> None:
    random = np.random.default_rng(1)
    points = np.arange(5)

    def correlations(count: int) -> list[float]:
        return [stats.spearmanr(points, 1.5 * points + noise).statistic for noise in random.normal(size=(count, 5))]

    many = np.array(correlations(4000))
    found = dict.fromkeys((True, False), 0)
    for drawn_ones in random.choice(many, size=(1000, 10)):
        for coarse in found:
            ends = interval(drawn_ones.tolist(), Scale((-1, 1), 999, coarse))
            assert ends is not None
            found[coarse] += ends[0] <= many.mean() <= ends[1]
    assert found[True] >= 850
    assert found[False] < 700


COARSE = {
    "fosse-table-2": {"values-follow", "explanation-falls"},
    "fosse-ablation": {"by-epoch"},
    "kobayashi-norms": {"depth"},
    "bonino-gates": {"directed"},
    "fosse-cones": {"neighbours"},
    "fosse-fine-tuning": {"neighbours"},
}


@pytest.mark.parametrize("name", STUDIES)
def test_rank_correlations_over_few_points_and_shares_of_few_are_judged_as_coarse(name: str) -> None:
    assert {claim.name for claim in STUDIES[name].claims if claim.coarse} == COARSE.get(name, set())


def test_a_value_outside_its_range_is_refused() -> None:
    with pytest.raises(MeasureError, match=r"the claim c: 1\.5 is outside the range from 0 to 1"):
        judged(Claim("c", "…", lambda _: rows(0.4, 1.5, 0.2, case="a"), within=(0, 1)), rows(1))
    assert interval([1 + 1e-9, 0.9, 0.8], Scale((0, 1)))


@pytest.mark.parametrize("counts", [[3, 5, 4], [0, 0, 0, 0], [120, 98, 110, 101, 95]])
def test_an_interval_of_counts_is_the_exact_one_of_poisson(counts: list[float]) -> None:
    low, high = poisson(counts)
    total = sum(counts)
    # By definition: at either end, so many or so few are seen in 2.5 % of all cases.
    assert stats.poisson.cdf(total, high * len(counts)) == pytest.approx(0.025)
    if total:
        assert stats.poisson.sf(total - 1, low * len(counts)) == pytest.approx(0.025)
    else:
        assert low == 0
    assert interval(counts, counts=True) == (low, high)
    assert interval(counts[:2], counts=True) is None


@pytest.mark.parametrize("values", [[1, 2, -3], [0.5, 1, 2]])
def test_what_is_no_count_is_refused(values: list[float]) -> None:
    with pytest.raises(MeasureError, match="has values that are no counts"):
        poisson(values)


def test_means_are_over_seeds_and_of_nothing_else() -> None:
    found = averaged(pd.concat([rows(1, 2, 3, quantity="a", layer=1.0), rows(5, 7, quantity="b")], ignore_index=True))
    assert found[["quantity", "mean", "n"]].values.tolist() == [["a", 2.0, 3], ["b", 6.0, 2]]
    assert found["sd"].tolist() == pytest.approx([1.0, math.sqrt(2)])
    assert found["values"][1] == {"0": 5.0, "1": 7.0}


def test_a_published_figure_is_excluded_where_no_further_run_of_ours_could_lie() -> None:
    means = averaged(rows(0.4, 0.5, 0.6, quantity="a"))
    reach = 4.303 * 0.1 * math.sqrt(4 / 3)
    within = {0.5 + reach - 1e-3: "not excluded", 0.5 + reach + 1e-3: "excluded", 0.5 - reach + 1e-3: "not excluded"}
    found = compared(means, [Published({"quantity": "a"}, value, "N") for value in within])
    assert found["holds"].tolist() == list(within.values())
    assert found["half"].tolist() == pytest.approx([reach] * 3, abs=1e-4)
    wide = compared(means, [Published({"quantity": "a"}, 0.5 + reach + 0.01, "F", tolerance=0.02)])
    assert wide["holds"].tolist() == ["not excluded"]
    assert wide["half"].tolist() == pytest.approx([reach + 0.02], abs=1e-4)
    assert compared(averaged(rows(0.4, 0.5, quantity="a")), [Published({"quantity": "a"}, 0.4, "N")])["holds"].tolist() == [
        "too few seeds"
    ]
    assert compared(means, [Published({"quantity": "b"}, 0.5, "N"), Published({"depth": 1}, 0.5, "N")]).empty


def test_the_range_of_a_further_run_is_on_the_scale_of_the_quantity() -> None:
    z = np.arctanh(CORRELATIONS)
    reach = t_quantile(3) * z.std(ddof=1) * math.sqrt(5 / 4)
    expected = np.tanh([z.mean() - reach, z.mean() + reach])
    assert prediction(CORRELATIONS, Scale((-1, 1))) == pytest.approx(tuple(expected))
    found = compared(averaged(rows(*CORRELATIONS, quantity="sim.key")), [Published({"quantity": "sim.key"}, 0.9999, "N")])
    assert found[["low", "high"]].values[0] == pytest.approx(expected)
    assert found["holds"].tolist() == ["excluded" if expected[1] < 0.9999 else "not excluded"]
    assert all(low < high for low, high in BOUNDS.values())


def test_a_published_figure_at_the_end_of_its_range_is_not_excluded_by_runs_there() -> None:
    means = averaged(rows(1.0, 1.0, 0.999, quantity="accuracy"))
    found = compared(means, [Published({"quantity": "accuracy"}, value, "N") for value in (1.0, 0.5)], texts=1000)
    assert found["holds"].tolist() == ["not excluded", "excluded"]


BROKEN = [0.80, 0.81, 0.79, 0.80, 0.82, 0.80, 0.81, 0.79, 0.9999, 0.15]
"""SIM of ten runs, of which the last two are of models at chance."""


def of_passing(published: Published, values: list[float], passing: int) -> dict[str, object]:
    every = rows(*values, quantity=published.keys["quantity"])
    kept = averaged(every[every["seed"] < passing])
    if kept.empty:
        kept = pd.DataFrame([{"quantity": published.keys["quantity"], "mean": None, "n": 0, "values": {}}])
    (found,) = compared(averaged(every), [published], passing=kept).to_dict("records")
    return {str(name): value for name, value in found.items()}


def test_a_published_figure_is_judged_on_runs_that_pass_the_gate_and_again_on_all() -> None:
    figure = Published({"quantity": "sim.value"}, 0.992, "S")
    found = of_passing(figure, BROKEN, 8)
    assert (found["holds"], found["all_holds"]) == ("excluded", "not excluded")
    assert (found["n"], found["all_n"], found["gated"]) == (8, 10, 2)
    assert found["ours"] == pytest.approx(np.mean(BROKEN[:8]))
    assert found["all_ours"] == pytest.approx(np.mean(BROKEN))
    assert found["half"] < found["all_half"]  # type: ignore[operator]
    for few in (0, 2):
        assert (of_passing(figure, BROKEN, few)["holds"], of_passing(figure, BROKEN, few)["gated"]) == ("not judged", 10 - few)
    assert of_passing(figure, BROKEN[:2], 1)["holds"] == "too few seeds"


def test_a_published_accuracy_is_judged_on_all_runs() -> None:
    found = of_passing(Published({"quantity": "accuracy"}, 0.992, "S"), BROKEN, 8)
    assert (found["holds"], found["n"], found["gated"]) == ("not excluded", 10, 0)


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
    verdict = judged(Claim("c", "…", lambda _: frame), rows(1))
    assert (verdict.answer, verdict.all_answer) == (answer, answer)


def test_a_case_says_in_how_many_seeds_it_lies_above_the_bound() -> None:
    (case,) = judged(Claim("c", "…", lambda _: rows(0.4, 0.6, 0.7, case="a"), above=0.5), rows(1)).cases
    assert (case.passing.above, case.passing.seeds, case.passing.answer) == (2, 3, "unclear")


def gated(values: list[float], passing: list[int], **of_claim: bool) -> tuple[Case, str, str]:
    every = rows(*values, case="a")
    claim = Claim("c", "…", lambda frame: frame, **of_claim)
    verdict = judged(claim, every, every[every["seed"].isin(passing)])
    return verdict.cases[0], verdict.answer, verdict.all_answer


def test_a_claim_is_judged_on_runs_that_pass_the_gate_and_again_on_all() -> None:
    case, answer, all_answer = gated([1.0, 1.1, 0.9, -9.0], [0, 1, 2])
    assert (answer, all_answer) == ("holds", "unclear")
    assert (case.gated, case.passing.seeds, case.over_all.seeds) == (1, 3, 4)
    assert case.passing.mean == pytest.approx(1.0)
    assert case.over_all.mean == pytest.approx(-1.5)


@pytest.mark.parametrize("passing", [[], [1], [0, 2]])
def test_a_claim_about_models_of_which_less_than_three_pass_the_gate_is_not_judged(passing: list[int]) -> None:
    case, answer, all_answer = gated([1.0, 1.1, 0.9, 1.2], passing)
    assert (answer, all_answer, case.gated) == ("not judged", "holds", 4 - len(passing))
    assert (case.passing.low, case.passing.high) == (None, None)
    assert (case.passing.mean is None) == (not passing)


def test_a_claim_about_accuracy_can_be_judged_on_all_runs_alone() -> None:
    case, answer, all_answer = gated([1.0, 1.1, 0.9, 1.2], [], gated=False)
    assert (answer, all_answer, case.gated) == ("holds", "holds", 0)


def test_cases_that_are_not_judged_are_counted_in_the_verdict() -> None:
    every = pd.concat([rows(1, 1.1, 0.9, case="a"), rows(1, 1.1, 0.9, case="b")])
    assert (
        judged(Claim("c", "…", lambda f: f), every, every[every["case"] == "a"]).answer == "holds in 1 of 2 cases, 1 not judged"
    )
    other = judged(Claim("c", "…", lambda f: f, above=2), every, every[every["case"] == "a"])
    assert other.answer == "does not hold, 1 not judged"


def test_a_claim_whose_rows_are_lacking_has_no_case() -> None:
    assert judged(Claim("c", "…", lambda frame: frame[["nothing"]]), rows(1, 2, 3)).cases == []
    assert judged(Claim("c", "…", lambda frame: frame[["nothing"]]), rows()).cases == []


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
    numbers = {"published": 0.5, "ours": 0.6, "sd": 0.1, "n": 5, "holds": "not excluded"}
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


def test_published_figures_without_a_run_that_passes_are_not_drawn_and_the_gate_is_said() -> None:
    both = pd.concat([published("a", gated=0), published("b", ours=None, sd=None, gated=5)], ignore_index=True)
    chart = drawn("published-and-ours", study__published=both)
    assert [row["what"] for row in rows_where(chart, line=False)] == ["a"]
    assert "gated" in str(chart.to_dict())
    assert "gated" not in str(drawn("published-and-ours", study__published=published()).to_dict())
    assert FIGURES["published-and-ours"].draw({"study.published": both[1:]}) is None


def test_claims_are_drawn_with_their_intervals_and_their_bound() -> None:
    few = case("b", low=None, high=None, answer="too few seeds", bound=0.5)
    chart = drawn("claims", study__claims=pd.DataFrame([case(), few]))
    (row,) = rows_where(chart, case="a")
    assert (row["mean"], row["low"], row["high"], row["bound"]) == (0.2, 0.1, 0.3, 0.0)
    assert rows_where(chart, case="b")[0]["low"] is None
    assert is_drawable(chart)


def test_gated_runs_are_counted_beside_the_case_and_all_runs_are_drawn_in_grey() -> None:
    every = {"all_mean": -0.1, "all_low": -0.5, "all_high": 0.3, "all_answer": "unclear"}
    lost = case("b", mean=None, low=None, high=None, answer="not judged", gated=4, **every)
    chart = drawn("claims", study__claims=pd.DataFrame([case(gated=0, **every), lost]))
    (row,) = rows_where(chart, case="b (4 gated)")
    assert (row["mean"], row["all_mean"], row["answer"]) == (None, -0.1, "not judged")
    assert rows_where(chart, case="a")
    assert is_drawable(chart)


def test_studies_beside_each_other_and_hostile_names_are_drawn() -> None:
    claims = pd.DataFrame([{**case(name), "run": run, "claim": name} for name in HOSTILE for run in ("one", "two")])
    assert is_drawable(drawn("claims", study__claims=claims))
    figures = pd.concat([published(name, run=run, corpus=name) for name in HOSTILE for run in ("one", "two")], ignore_index=True)
    assert is_drawable(drawn("published-and-ours", study__published=figures))
    plain = published().drop(columns=["corpus", "quantity", "sd"])
    assert is_drawable(drawn("published-and-ours", study__published=plain))
