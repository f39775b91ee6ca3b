"""The exact interval of a share of models, and the claims that take it."""

import pandas as pd
import pytest
from scipy.stats import binom

from conoscope.common.errors import MeasureError
from conoscope.studies import STUDIES
from conoscope.studies.base import Claim
from conoscope.studies.binomial import share_found
from conoscope.studies.judging import judged

WITHOUT_RANGE = {
    ("fosse-table-2", "longer"),
    ("course-scale", "vanishing"),
    ("kobayashi-norms", "beside-words"),
    ("kobayashi-norms", "short"),
    ("bonino-gates", "softmax"),
}
"""Claims about lengths, their ratios and ranks, which have no largest value."""


def shares(ones: int, n: int) -> tuple[float, float]:
    found = share_found([1.0] * ones + [0.0] * (n - ones))
    assert found is not None
    return found


@pytest.mark.parametrize("n", [3, 8, 10])
def test_the_ends_are_the_shares_at_which_as_many_and_as_few_are_just_too_rare(n: int) -> None:
    for ones in range(n + 1):
        low, high = shares(ones, n)
        assert low <= ones / n <= high
        assert binom.sf(ones - 1, n, low) == pytest.approx(0.025) if ones else low == 0
        assert binom.cdf(ones, n, high) == pytest.approx(0.025) if ones < n else high == 1


def test_fewer_than_three_have_no_interval_and_other_numbers_are_refused() -> None:
    assert share_found([1.0, 1.0]) is None
    with pytest.raises(MeasureError, match="neither 0 nor 1; leave found=True out"):
        share_found([1.0, 0.0, 2.0])


def test_a_claim_that_something_is_found_is_judged_by_the_models_that_have_it() -> None:
    claim = Claim("found", "It is there.", lambda rows: rows, 0.5, found=True)
    rows = pd.DataFrame({"case": "a", "seed": range(8), "value": [1.0] * 8})
    (case,) = judged(claim, rows).cases
    assert (case.passing.answer, case.passing.above, case.passing.high) == ("yes", 8, 1)
    assert case.passing.low == pytest.approx(0.025 ** (1 / 8))
    (case,) = judged(claim, rows.assign(value=[1.0] + [0.0] * 7)).cases
    assert (case.passing.answer, case.passing.mean) == ("unclear", 0.125)
    (case,) = judged(claim, rows.assign(value=0.0)).cases
    assert case.passing.answer == "no"


def test_a_claim_has_one_kind_of_interval_and_those_without_a_range_are_of_lengths_and_ranks() -> None:
    for study in STUDIES.values():
        for claim in study.claims:
            kinds = (claim.within is not None) + claim.counts + claim.found
            assert kinds == ((study.name, claim.name) not in WITHOUT_RANGE), f"{study.name} {claim.name}"
