import json
from typing import Any

import pandas as pd
import pytest

from cones import answer, medians, mixtures, quantities, rows
from conoscope.studies import STUDIES
from conoscope.studies.judging import judged
from conoscope.studies.published import cone_claims
from conoscope.studies.reproducing import Reproducing, reproduce

STUDY = STUDIES["fosse-cones"]
KEYS = {"corpus": "hatexplain", "model": "pure-attention L5"}
REVIEWS = {**KEYS, "corpus": "yelp_hat"}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The quick form on bistro."""
    folder = tmp_path_factory.mktemp("cones")
    return reproduce("fosse-cones", folder / "out", Reproducing(quick=True, seeds=1, jobs=1, device="cpu", data_dir=str(folder)))


def test_published_figures_are_those_of_the_notebooks() -> None:
    published = {tuple(sorted(one.keys.items())): one for one in STUDY.published}

    def figure(**keys: str) -> tuple[float, str, float]:
        one = published[tuple(sorted({"stage": "after", **keys}.items()))]
        return one.value, one.tag, one.tolerance

    far = {**KEYS, "class": "normal", "gold": "hatespeech"}
    assert figure(**far, quantity="median.hidden") == (0.79, "F", 0.02)
    assert figure(**far, quantity="median.key") == (0.335, "F", 0.02)
    reviews = {**REVIEWS, "class": "positive", "gold": "negative"}
    assert figure(**reviews, quantity="median.hidden") == (-0.59, "F", 0.02)
    pairs = {"corpus": "esnli", "model": "pure-attention L2", "class": "neutral", "gold": "entailment"}
    assert figure(**pairs, quantity="median.hidden") == (0.78, "F", 0.02)
    assert len(published) == len(STUDY.published) == 3 * 9 + 9 + 3 * 4 + 9


def test_models_are_of_the_published_width_and_read_shuffled_batches() -> None:
    for condition in STUDY.conditions:
        assert condition.training is not None
        assert (condition.training.lift, condition.training.batches) == (300, "shuffled")
    assert STUDY.seeds == 10


def test_the_quick_form_reads_the_untrained_model_beside_the_trained_one(record: dict[str, Any]) -> None:
    assert record["failed"] == []
    means = pd.DataFrame(record["means"])
    stages = means[means["model"] == "pure-attention L5"].groupby("stage")["quantity"].agg(set)
    both = {"cosine.own", "cosine.other", "cosine.between", "nearest", "control.norm", "sim.key", "sim.value.last"}
    assert both | {"share.effective_rank", "share.participation_ratio"} <= stages["before"] & stages["after"]
    # Only a trained model has answers.
    assert {"accuracy", "agreement", "cosine.own.mixed", "nearest.mixed"} <= stages["after"] - stages["before"]
    assert {claim["name"] for claim in record["claims"]} == {claim.name for claim in STUDY.claims}
    layers = means[(means["quantity"] == "sim.value") & (means["stage"] == "after") & (means["model"] == "pure-attention L5")]
    assert sorted(layers["layer"]) == [1, 2, 3, 4, 5]


def test_a_record_keeps_the_names_of_examples_and_no_text(record: dict[str, Any]) -> None:
    named = [row for row in record["means"] if row.get("example")]
    assert {row["quantity"] for row in named} == {"cosine.nearest", "cosine.farthest"}
    assert all(row["example"].startswith("bistro:test:") and row["place"] in (1, 2, 3) for row in named)
    assert "waiter" not in json.dumps(record)


def test_classes_are_apart_where_the_own_direction_is_nearer() -> None:
    near, far = {"after_cosine_own": 0.8}, {"after_cosine_other": 0.2}
    assert answer(STUDY, "apart", quantities(KEYS, **near, **far)) == "holds"
    assert answer(STUDY, "apart", quantities(KEYS, after_cosine_own=0.2, after_cosine_other=0.8)) == "does not hold"
    before = {"before_cosine_own": 0.5, "before_cosine_other": 0.4}
    assert answer(STUDY, "tuned", quantities(KEYS, **near, **far, **before)) == "holds"
    assert answer(STUDY, "tuned", quantities(KEYS, **before, after_cosine_own=0.5, after_cosine_other=0.45)) == "does not hold"


def test_the_nearest_cone_is_held_to_the_model_and_to_every_control() -> None:
    assert answer(STUDY, "nearest", quantities(KEYS, after_agreement=0.95)) == "holds"
    assert answer(STUDY, "nearest", quantities(KEYS, after_agreement=0.85)) == "does not hold"
    controls = {"after_control_norm": 0.5, "after_control_shuffled": 0.4}
    assert answer(STUDY, "controls", quantities(KEYS, after_nearest=0.9, **{**controls, "after_control_norm": 0.89})) == "holds"
    assert answer(STUDY, "controls", quantities(KEYS, after_nearest=0.45, **controls)) == "holds in 1 of 2 cases"


def test_the_middle_class_lies_between_the_other_two_where_it_is_nearer_to_both() -> None:
    nearer = {("normal", "offensive"): 0.95, ("normal", "hatespeech"): 0.79}
    both = {**nearer, ("hatespeech", "offensive"): 0.9, ("hatespeech", "normal"): 0.8}
    assert answer(STUDY, "between", medians(KEYS, both)) == "holds"
    assert answer(STUDY, "between", medians(KEYS, {**both, ("hatespeech", "offensive"): 0.7})) == "holds in 1 of 2 cases"
    pairs = {("entailment", "neutral"): 0.5, ("entailment", "contradiction"): 0.1, ("contradiction", "neutral"): 0.05,
             ("contradiction", "entailment"): 0.1}  # fmt: skip
    assert answer(STUDY, "between", medians({**KEYS, "corpus": "esnli"}, pairs)) == "holds in 1 of 2 cases"


def test_opposite_classes_have_cosines_below_zero() -> None:
    own = {("negative", "negative"): 0.9}
    assert answer(STUDY, "opposite", medians(REVIEWS, {**own, ("negative", "positive"): -0.7})) == "holds"
    assert answer(STUDY, "opposite", medians(REVIEWS, {**own, ("negative", "positive"): 0.1})) == "does not hold"


def test_cones_are_orthogonal_within_fifteen_degrees_and_neither_alike_nor_opposite() -> None:
    assert pytest.approx(0.2588, abs=1e-4) == cone_claims.RIGHT
    assert answer(STUDY, "orthogonal", quantities(KEYS, after_cosine_largest=0.2)) == "holds"
    assert answer(STUDY, "orthogonal", quantities(KEYS, after_cosine_largest=0.3)) == "does not hold"
    # The rows have the cosine farthest from 0 without its sign: opposite cones, at -.9, are not orthogonal.
    assert answer(STUDY, "orthogonal", quantities(KEYS, after_cosine_largest=0.9)) == "does not hold"


def test_weights_guide_where_they_bring_the_mixture_nearer_to_its_class_than_both_other_weights() -> None:
    guided = {"weights": 0.3, "equal": 0.1, "reversed": 0.05}
    assert answer(STUDY, "guided", mixtures(KEYS, guided)) == "holds"
    assert answer(STUDY, "guided", mixtures(KEYS, {**guided, "reversed": 0.4})) == "holds in 1 of 2 cases"
    claim = next(one for one in STUDY.claims if one.name == "guided")
    cases = judged(claim, mixtures(KEYS, guided)).cases
    assert {case.case: round(case.over_all.mean or 0, 6) for case in cases} == {
        "hatexplain, pure-attention L5, against equal weights": 0.2,
        "hatexplain, pure-attention L5, against reversed weights": 0.25,
    }


def test_equal_weights_that_are_as_good_are_no_guidance() -> None:
    assert answer(STUDY, "guided", mixtures(KEYS, {"weights": 0.3, "equal": 0.3, "reversed": 0.3})) != "holds"


def test_neighbours_are_compared_with_the_farthest_texts() -> None:
    assert answer(STUDY, "neighbours", quantities(KEYS, after_share_nearest=0.9, after_share_farthest=0.2)) == "holds"
    assert answer(STUDY, "neighbours", quantities(KEYS, after_share_nearest=0.2, after_share_farthest=0.4)) == "does not hold"


def test_dimensions_are_unused_below_half_of_the_width_and_fewer_where_the_share_fell() -> None:
    def of(before: float, after: float) -> pd.DataFrame:
        stages = {"before": before, "after": after}
        return rows(
            KEYS, *({"stage": stage, "quantity": "share.effective_rank", "value": value} for stage, value in stages.items())
        )

    assert (answer(STUDY, "unused", of(0.9, 0.3)), answer(STUDY, "fewer", of(0.9, 0.3))) == ("holds", "holds")
    assert (answer(STUDY, "unused", of(0.3, 0.6)), answer(STUDY, "fewer", of(0.3, 0.6))) == ("does not hold", "does not hold")


def test_sim_is_compared_by_site_in_the_last_layer() -> None:
    after = {"after_sim_hidden_last": 0.7, "after_sim_key_last": 0.6, "after_sim_value_last": 0.2}
    before = {"before_sim_hidden_last": 0.4, "before_sim_key_last": 0.3, "before_sim_value_last": 0.5}
    assert answer(STUDY, "reinforced", quantities(KEYS, **after, **before)) == "holds in 2 of 3 cases"
    # The mean over layers says nothing of the last one.
    assert (
        answer(STUDY, "reinforced", quantities(KEYS, after_sim_hidden_mean=0.7, before_sim_hidden_mean=0.4)) == "cannot be told"
    )
