"""The study of the course's family: its plumbing, and how its claims judge made-up rows."""

from pathlib import Path

import pandas as pd
import pytest

from conoscope.studies import STUDIES
from conoscope.studies.judging import Verdict, judged
from conoscope.studies.published.course_family import ALIKE, STUDY
from conoscope.studies.reproducing import Reproducing, reproduce

ACCURACIES = {"mean": 0.80, "simple": 0.83, "question": 0.84, "question-value": 0.85, "tp9-base": 0.81,
              "tp9-residual": 0.86, "tp9-positions": 0.84, "tp9-cls": 0.845}  # fmt: skip
STEP = 0.001
"""How far apart two seeds are."""


def verdicts(**changed: float) -> dict[str, Verdict]:
    """What the claims come to, where each model has an accuracy and seeds differ a little, each model's in its own way."""
    found = {**ACCURACIES, **{name.replace("_", "-"): value for name, value in changed.items()}}
    rows = [
        {"preset": preset, "quantity": quantity, "seed": seed, "value": value + STEP * ((seed + number) % 3)}
        for number, (preset, accuracy) in enumerate(found.items())
        for seed in range(3)
        for quantity, value in (("accuracy", accuracy), ("epochs", 9.0))
    ]
    return {claim.name: judged(claim, pd.DataFrame(rows)) for claim in STUDY.claims}


def test_every_step_of_the_course_is_trained_alike_on_frozen_vectors_cut_at_500() -> None:
    assert {condition.keys["preset"] for condition in STUDY.conditions} == set(ACCURACIES)
    trainings = [condition.training for condition in STUDY.conditions if condition.training is not None]
    assert len(trainings) == len(ACCURACIES)
    assert {(one.vectors, one.freeze, one.max_length, one.epochs, one.patience) for one in trainings} == {
        ("glove", True, 500, 20, 5)
    }
    assert {(one.layers, one.rate) for one in trainings} == {(None, 1e-2), (3, 1e-3)}
    assert STUDY.seeds >= 3
    assert not STUDY.published


def test_what_one_expects_holds_on_rows_that_say_so() -> None:
    assert {name: verdict.answer for name, verdict in verdicts().items()} == dict.fromkeys(verdicts(), "holds")


@pytest.mark.parametrize(
    ("claim", "changed", "answer"),
    [
        ("mean", {"mean": 0.70}, "does not hold"),
        ("question", {"simple": 0.79}, "holds in 2 of 3 cases"),
        ("base", {"tp9_base": 0.80 + 2 * ALIKE}, "does not hold"),
        ("residual", {"tp9_residual": 0.80}, "does not hold"),
        ("positions", {"tp9_positions": 0.80}, "does not hold"),
        ("cls", {"tp9_cls": 0.84 + 2 * ALIKE}, "holds in 1 of 2 cases"),
        ("cls", {"tp9_cls": 0.84 - 2 * ALIKE}, "holds in 1 of 2 cases"),
    ],
)
def test_a_claim_does_not_hold_on_rows_that_say_otherwise(claim: str, changed: dict[str, float], answer: str) -> None:
    assert verdicts(**changed)[claim].answer == answer


def test_models_of_the_same_seed_are_compared() -> None:
    (case,) = verdicts()["residual"].cases
    assert case.case == "tp9-residual over tp9-base"
    assert case.passing.mean == pytest.approx(0.05)


def test_the_quick_form_reads_accuracy_and_epochs_of_each_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONOSCOPE_DATA", str(tmp_path))
    record = reproduce("course-family", tmp_path / "out", Reproducing(device="cpu", jobs=1, quick=True, seeds=1))
    assert not record["failed"]
    assert {row["preset"] for row in record["means"]} == {"mean", "simple", "tp9-positions", "tp9-cls"}
    assert all(row["mean"] == 1 for row in record["means"] if row["quantity"] == "epochs")
    assert {claim["answer"] for claim in record["claims"]} <= {"cannot be told", "not run"}
    assert STUDIES["course-family"] is STUDY
