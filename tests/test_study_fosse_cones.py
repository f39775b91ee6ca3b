from pathlib import Path

import pandas as pd
import pytest

from conoscope.common.errors import ModelError
from conoscope.studies import STUDIES, checkpoints
from conoscope.studies.base import MINILM, Condition
from conoscope.studies.checkpoints import with_checkpoint, without_checkpoint
from conoscope.studies.judging import judged
from conoscope.studies.reproducing import Reproducing, reproduce

STUDY = STUDIES["fosse-cones"]
CLAIMS = {claim.name: claim for claim in STUDY.claims}
SEEDS = range(3)
TUNED = [condition for condition in STUDY.conditions if condition.wants_checkpoint]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory, model: Path) -> dict[str, object]:
    """The quick form on bistro, with a small model of ours in the place of MiniLM."""
    folder = tmp_path_factory.mktemp("cones")
    options = Reproducing(quick=True, seeds=1, jobs=1, device="cpu", data_dir=str(folder), model=str(model))
    return reproduce("fosse-cones", folder / "out", options)


def made_up(**values: float) -> pd.DataFrame:
    """Rows of three seeds that differ a little; `before_cosine_own` is the quantity cosine.own before fine-tuning."""
    told = []
    for name, value in values.items():
        stage, _, quantity = name.partition("_")
        for seed in SEEDS:
            told.append({"stage": stage, "quantity": quantity.replace("_", "."), "value": value + seed / 1000, "seed": seed})
    return pd.DataFrame(told).assign(corpus="newsgroups", model="MiniLM")


def medians(corpus: str, cosines: dict[tuple[str, str], float]) -> pd.DataFrame:
    keys = {"corpus": corpus, "model": "pure-attention L5", "stage": "after", "quantity": "median.hidden"}
    return pd.DataFrame(
        [
            {**keys, "class": label, "gold": gold, "seed": seed, "value": value + seed / 1000}
            for (label, gold), value in cosines.items()
            for seed in SEEDS
        ]
    )


def answer(claim: str, rows: pd.DataFrame) -> str:
    return judged(CLAIMS[claim], rows).answer


def test_published_figures_are_those_of_the_sources() -> None:
    published = {tuple(sorted(one.keys.items())): one for one in STUDY.published}

    def figure(**keys: str) -> tuple[float, str, float]:
        one = published[tuple(sorted({"stage": "after", **keys}.items()))]
        return one.value, one.tag, one.tolerance

    far = {"corpus": "hatexplain", "model": "pure-attention L5", "class": "normal", "gold": "hatespeech"}
    assert figure(**far, quantity="median.hidden") == (0.79, "F", 0.02)
    assert figure(**far, quantity="median.key") == (0.335, "F", 0.02)
    reviews = {"corpus": "yelp_hat", "model": "pure-attention L5", "class": "positive", "gold": "negative"}
    assert figure(**reviews, quantity="median.hidden") == (-0.59, "F", 0.02)
    assert figure(corpus="newsgroups", quantity="pearson.first") == (0.8643, "N", 0.0)
    assert len(published) == len(STUDY.published) == 3 * 9 + 9 + 3 * 4 + 2 + 2


def test_the_quick_form_reads_a_model_before_and_after_fine_tuning(record: dict[str, object]) -> None:
    assert record["failed"] == []
    means = pd.DataFrame(record["means"])
    stages = means[means["model"] == "MiniLM"].groupby("stage")["quantity"].agg(set)
    assert {"cosine.own", "cosine.other", "nearest", "control.norm"} <= stages["before"] & stages["after"]
    assert "agreement" in stages["after"]
    new = means[means["model"] != "MiniLM"]
    assert set(new["stage"]) == {"after"}
    assert {claim["name"] for claim in record["claims"]} == set(CLAIMS)


def test_classes_are_apart_where_the_own_direction_is_nearer() -> None:
    near, far = {"after_cosine_own": 0.8}, {"after_cosine_other": 0.2}
    assert answer("apart", made_up(**near, **far)) == "holds"
    assert answer("apart", made_up(after_cosine_own=0.2, after_cosine_other=0.8)) == "does not hold"
    before = {"before_cosine_own": 0.5, "before_cosine_other": 0.4}
    assert answer("tuned", made_up(**near, **far, **before)) == "holds"
    assert answer("tuned", made_up(**before, after_cosine_own=0.5, after_cosine_other=0.45)) == "does not hold"


def test_the_nearest_cone_is_held_to_the_model_and_to_every_control() -> None:
    assert answer("nearest", made_up(after_agreement=0.95)) == "holds"
    assert answer("nearest", made_up(after_agreement=0.85)) == "does not hold"
    controls = {"after_control_norm": 0.5, "after_control_shuffled": 0.4}
    assert answer("controls", made_up(after_nearest=0.9, **{**controls, "after_control_norm": 0.89})) == "holds"
    assert answer("controls", made_up(after_nearest=0.45, **controls)) == "holds in 1 of 2 cases"


def test_a_correlation_must_lie_above_one_half() -> None:
    assert answer("classes", made_up(after_pearson_first=0.8)) == "holds"
    assert answer("classes", made_up(after_pearson_first=0.4)) == "does not hold"


def test_offensive_posts_lie_between_the_other_two_where_they_are_nearer_to_both() -> None:
    nearer = {("normal", "offensive"): 0.95, ("normal", "hatespeech"): 0.79}
    assert (
        answer("between", medians("hatexplain", {**nearer, ("hatespeech", "offensive"): 0.9, ("hatespeech", "normal"): 0.8}))
        == "holds"
    )
    assert (
        answer("between", medians("hatexplain", {**nearer, ("hatespeech", "offensive"): 0.7, ("hatespeech", "normal"): 0.8}))
        == "holds in 1 of 2 cases"
    )


def test_opposite_classes_have_cosines_below_zero() -> None:
    own = {("negative", "negative"): 0.9}
    assert answer("opposite", medians("yelp_hat", {**own, ("negative", "positive"): -0.7})) == "holds"
    assert answer("opposite", medians("yelp_hat", {**own, ("negative", "positive"): 0.1})) == "does not hold"


def test_the_model_that_a_user_names_takes_the_place_of_minilm() -> None:
    named = list(with_checkpoint([*TUNED, Condition({}, "bistro", model=MINILM)], "some/model"))
    assert {condition.training.checkpoint for condition in named if condition.training} == {"some/model"}
    assert named[-1].model == "some/model"


def test_without_minilm_a_study_asks_for_a_model_and_the_quick_form_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"no model to begin with.*give --model FOLDER"):
        list(with_checkpoint(STUDY.conditions, None))
    assert not any(condition.wants_checkpoint for condition in without_checkpoint(STUDY.conditions, None))
    assert without_checkpoint(STUDY.conditions, "some/model") == list(STUDY.conditions)
