"""The study of many classes: its plumbing, and how its claims judge made-up rows."""

from pathlib import Path

import pandas as pd
import pytest

from conoscope.measures.capacity import random_largest, simplex
from conoscope.studies import STUDIES
from conoscope.studies.judging import Verdict, judged
from conoscope.studies.published.many_classes import STUDY
from conoscope.studies.reproducing import Reproducing, reproduce
from conoscope.studies.statements import STATEMENTS

QUANTITIES = {
    "accuracy",
    "nearest cone",
    "largest cosine",
    "mean cosine",
    "typical cosine",
    "simplex",
    "random",
    "effective rank",
    "share used",
}


def verdicts(
    beyond: float = 0.02, each: float = 0.001, nearest: float = 0.95, used: float = 0.1, typical: float = 0.1
) -> dict[str, Verdict]:
    """What the claims come to, where the largest cosine is so far beyond the simplex and grows a little with each class, and so
    does the share of dimensions in use."""
    rows = []
    for condition in STUDY.conditions:
        classes, width = condition.keys["classes"], condition.keys["width"]
        least, random = simplex(classes, width), random_largest(classes, width)
        for seed in range(3):
            found = {"accuracy": 0.95, "nearest cone": nearest, "largest cosine": least + beyond + each * classes,
                     "mean cosine": least, "typical cosine": typical, "simplex": least, "random": random, "effective rank": 1.0,
                     "share used": min(max(used + each * classes / 10, 0.01), 0.99)}  # fmt: skip
            rows += [
                {**condition.keys, "seed": seed, "quantity": quantity, "value": value + 1e-5 * seed}
                for quantity, value in found.items()
            ]
    return {claim.name: judged(claim, pd.DataFrame(rows)) for claim in STUDY.claims}


def test_classes_are_few_and_many_and_more_than_dimensions() -> None:
    shapes = {(str(one.keys["corpus"]), one.keys["classes"], one.keys["width"]) for one in STUDY.conditions}
    assert ("newsgroups", 20, 64) in shapes
    assert {classes for corpus, classes, width in shapes if (corpus, width) == ("bistro-topics", 64)} >= {2, 5, 10, 20, 50, 100}
    assert any(classes > width for _, classes, width in shapes)


def test_claims_hold_on_rows_that_say_so() -> None:
    assert {name: verdict.answer for name, verdict in verdicts().items()} == dict.fromkeys(verdicts(), "holds")


def test_directions_that_crowd_are_neither_apart_nor_near_a_simplex() -> None:
    crowded = verdicts(beyond=1.0, each=-0.005)
    assert all(case.over_all.answer != "yes" for name in ("apart", "simplex") for case in crowded[name].cases)
    assert any(case.over_all.answer == "no" for case in crowded["simplex"].cases)
    assert crowded["grows"].answer != "holds"
    assert {case.case for case in crowded["apart"].cases} >= {"newsgroups, classes 20, width 64"}
    assert len(crowded["apart"].cases) == len([one for one in STUDY.conditions if one.keys["classes"] >= 20])


def test_two_opposite_bundles_average_out_and_are_not_orthogonal() -> None:
    bundles = verdicts(typical=0.98)
    assert bundles["even"].answer == "holds"
    assert bundles["typical"].answer == "does not hold"


def test_two_bundles_at_right_angles_share_directions_within_each() -> None:
    bundles = verdicts(beyond=0.9, each=0.0, typical=0.01)
    assert bundles["typical"].answer == "holds"
    assert bundles["apart"].answer == "does not hold"
    assert {pair for one in STATEMENTS if "orthogonal at first sight" in one.says for pair in one.claims} == {
        ("many-classes", "typical"),
        ("many-classes", "apart"),
    }


def test_growth_is_from_one_number_of_classes_to_the_next_of_the_same_width() -> None:
    cases = {case.case: case.over_all.mean for case in verdicts(each=0.001)["grows"].cases}
    assert cases["width 64, classes 50 to 100"] == pytest.approx(0.05 + simplex(100, 64) - simplex(50, 64))
    assert cases["width 16, classes 20 to 100"] == pytest.approx(0.08)
    assert "width 16, classes 100 to 2" not in cases
    assert len(cases) == 7


def test_a_cone_that_is_worse_than_the_model_is_not_enough() -> None:
    assert verdicts(nearest=0.90)["enough"].answer == "does not hold"


def test_dimensions_are_unused_below_half_of_the_width_and_more_are_used_as_classes_grow() -> None:
    assert verdicts(used=0.1)["unused"].answer == "holds"
    assert verdicts(used=0.6)["unused"].answer == "does not hold"
    assert verdicts(each=-0.001)["fills"].answer == "does not hold"
    assert len(verdicts()["fills"].cases) == 7


def test_ten_seeds_read_shuffled_batches() -> None:
    assert STUDY.seeds == 10
    assert {one.training.batches for one in STUDY.conditions if one.training is not None} == {"shuffled"}


def test_the_quick_form_reads_cosines_beside_what_could_be(tmp_path: Path) -> None:
    record = reproduce("many-classes", tmp_path / "out", Reproducing(device="cpu", jobs=1, quick=True, seeds=1))
    assert not record["failed"]
    found = {(row["classes"], row["quantity"]): row["mean"] for row in record["means"]}
    assert set(found) == {(classes, quantity) for classes in (2, 10) for quantity in QUANTITIES}
    assert all(
        found[classes, "simplex"] <= found[classes, "mean cosine"] <= found[classes, "largest cosine"] <= 1 for classes in (2, 10)
    )
    assert found[2, "typical cosine"] == pytest.approx(abs(found[2, "mean cosine"]), abs=1e-6)
    assert 0 < found[10, "typical cosine"] <= 1
    assert STUDIES["many-classes"] is STUDY
