"""The study of the course's layers: what is trained, and how its claims judge made-up rows."""

from pathlib import Path

import pandas as pd
import pytest

from conoscope.studies import STUDIES
from conoscope.studies.judging import Verdict, judged
from conoscope.studies.published.course_layers import ALIKE, DEPTHS, MUCH, STUDY
from conoscope.studies.reproducing import Reproducing, reproduce

FALLING = {"none": -0.04, "course": 0.0, "prenorm": 0.001}
"""What each further layer adds to the accuracy."""


def verdicts(**slopes: float) -> dict[str, Verdict]:
    """What the claims come to, where accuracy is .85 at one layer and each further one adds a slope; seeds differ a little."""
    rows = [
        {"residual": residual, "layers": layers, "quantity": quantity, "seed": seed, "value": value + 1e-4 * (seed * layers % 4)}
        for residual, slope in {**FALLING, **slopes}.items()
        for layers in DEPTHS[residual]
        for seed in range(5)
        for quantity, value in (("accuracy", 0.85 + slope * (layers - 1)), ("epochs", 7.0))
    ]
    return {claim.name: judged(claim, pd.DataFrame(rows)) for claim in STUDY.claims}


def test_one_to_six_layers_are_trained_alike_with_a_residual_and_without() -> None:
    found = {(str(one.keys["residual"]), one.keys["layers"]): one.training for one in STUDY.conditions}
    assert {layers for residual, layers in found if residual == "none"} == {1, 2, 3, 4, 5, 6}
    assert {layers for residual, layers in found if residual == "course"} == {1, 2, 3, 4, 5, 6}
    for (residual, layers), training in found.items():
        assert training is not None
        assert (training.residual, training.layers, training.preset) == (residual, layers, "tp9-base")
        assert (training.batches, training.freeze, training.vectors) == ("shuffled", True, "glove")
    assert STUDY.gate is None
    assert STUDY.seeds >= 5


def test_claims_hold_where_only_models_without_a_residual_fall() -> None:
    assert {name: verdict.answer for name, verdict in verdicts().items()} == dict.fromkeys(verdicts(), "holds")


@pytest.mark.parametrize(
    ("claim", "slopes", "answer"),
    [
        ("degrades", {"none": 0.01}, "does not hold"),
        ("degrades-much", {"none": -0.8 * MUCH / 5}, "does not hold"),
        ("remedy", {"none": 0.02}, "does not hold"),
        ("remedy", {"course": -0.06}, "holds in 1 of 2 cases"),
        ("kept", {"course": -2 * ALIKE / 5}, "holds in 1 of 2 cases"),
        ("kept", {"course": -ALIKE / 10}, "holds"),
    ],
)
def test_a_claim_does_not_hold_on_rows_that_say_otherwise(claim: str, slopes: dict[str, float], answer: str) -> None:
    assert verdicts(**slopes)[claim].answer == answer


def test_each_deep_model_is_compared_with_one_layer_of_the_same_residual_and_seed() -> None:
    cases = {case.case: case.passing.mean for case in verdicts()["degrades"].cases}
    assert list(cases) == ["none, layers 4", "none, layers 5", "none, layers 6"]
    assert cases["none, layers 4"] == pytest.approx(0.12, abs=1e-3)


def test_the_quick_form_reads_accuracy_and_the_cosine_of_words(tmp_path: Path) -> None:
    options = Reproducing(device="cpu", jobs=1, quick=True, seeds=1, data_dir=str(tmp_path))
    record = reproduce("course-layers", tmp_path / "out", options)
    assert not record["failed"]
    found = {(row["residual"], row["layers"], row["quantity"]): row["mean"] for row in record["means"]}
    assert {key[:2] for key in found} == {("none", 1), ("none", 6), ("course", 1), ("course", 6)}
    assert all(-1 <= value <= 1 for (_, _, quantity), value in found.items() if quantity != "epochs")
    assert STUDIES["course-layers"] is STUDY
