from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from conoscope.studies import STUDIES
from conoscope.studies.judging import judged
from conoscope.studies.published.plausibility import MAPS, RAW, SOFTMAX
from conoscope.studies.reproducing import Reproducing, reproduce

STUDY = STUDIES["plausibility"]
CLAIMS = {claim.name: claim for claim in STUDY.claims}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The quick form on bistro, which has rationales."""
    folder = tmp_path_factory.mktemp("plausibility")
    options = Reproducing(quick=True, seeds=1, jobs=1, device="cpu", data_dir=str(folder))
    return reproduce("plausibility", folder / "out", options)


def rows(**values: float) -> pd.DataFrame:
    """AUROC of three seeds that differ a little; `attention_3_none` is that of attention at three layers without penalty."""
    told = []
    for name, value in values.items():
        explained, layers, penalty = name.split("_")
        keys = {"corpus": "hatexplain", "layers": int(layers), "penalty": penalty, "quantity": "auroc", "map": explained}
        told += [{**keys, "average": "micro", "seed": seed, "value": value + seed / 1000} for seed in range(3)]
    return pd.DataFrame(told)


def answer(claim: str, **values: float) -> str:
    return judged(CLAIMS[claim], rows(**values)).answer


def test_published_figures_are_those_of_the_notebooks_and_lie_beside_weights_normalised_alike() -> None:
    found = {
        (one.keys["corpus"], one.keys["layers"], one.keys["quantity"]): (one.value, one.tag, one.keys.get("average"))
        for one in STUDY.published
    }
    assert found["hatexplain", 1, "auroc"] == (0.7085, "N", RAW)
    assert found["hatexplain", 3, "auroc"] == (0.5199, "N", RAW)
    assert found["yelp_hat", 1, "auroc"] == (0.7116, "N", RAW)
    assert found["yelp_hat", 3, "auprc"] == (0.2955, "N", SOFTMAX)
    assert found["hatexplain", 1, "auprc"] == (0.5218, "N", SOFTMAX)
    assert found["hatexplain", 1, "accuracy"] == (0.6309, "N", None)
    assert len(found) == len(STUDY.published) == 12


def test_the_quick_form_judges_every_map_beside_chance(record: dict[str, Any]) -> None:
    assert record["failed"] == []
    means = pd.DataFrame(record["means"])
    assert set(means["map"].dropna()) == {*MAPS, "random"}
    assert set(means["average"].dropna()) == {"micro", "macro", RAW, SOFTMAX}
    assert {"accuracy", "auroc", "auprc", "density", "entropy"} == set(means["quantity"])
    assert set(means["penalty"]) == {"none", "rationale"}
    assert all(claim["cases"] for claim in record["claims"] if claim["name"] not in ("sharpened", "precise"))
    # Minmax in each text changes what is pooled; the second softmax is for AUPRC alone.
    attention = means[(means["map"] == "attention") & (means["layers"] == 1) & (means["penalty"] == "none")]
    by = attention.set_index(["quantity", "average"])["mean"]
    assert by["auprc", RAW] != by["auprc", "micro"] != by["auprc", SOFTMAX]
    assert ("auroc", SOFTMAX) not in by


def test_penalties_are_on_the_layer_whose_map_is_read() -> None:
    assert STUDY.seeds == 10
    for condition in STUDY.conditions:
        assert condition.training is not None
        assert (condition.training.lift, condition.training.batches) == (300, "shuffled")
        assert condition.training.penalty_layers == (condition.keys["layers"],) * 2
        assert condition.training.penalties.any == (condition.keys["penalty"] != "none")


@pytest.mark.parametrize(
    ("claim", "more", "less"),
    [
        ("chance", "attention_1_none", "random_1_none"),
        ("depth", "attention_1_none", "attention_3_none"),
        ("taught", "attention_1_rationale", "attention_1_none"),
        ("sharpened", "attention_1_entropy", "attention_1_none"),
        ("norms", "norms_1_none", "attention_1_none"),
        ("gradient", "attention_1_none", "gradient_1_none"),
    ],
)
def test_a_claim_holds_where_the_better_map_is_better_and_not_where_it_is_worse(claim: str, more: str, less: str) -> None:
    assert answer(claim, **{more: 0.7, less: 0.6}) == "holds"
    assert answer(claim, **{more: 0.6, less: 0.7}) == "does not hold"


def test_norms_may_be_a_little_worse_than_weights_and_gradients_may_not_be_equal() -> None:
    assert answer("norms", norms_1_none=0.695, attention_1_none=0.7) == "holds"
    assert answer("gradient", attention_1_none=0.7, gradient_1_none=0.7) != "holds"


def test_a_model_of_other_depth_says_nothing_of_the_penalty() -> None:
    assert answer("taught", attention_3_rationale=0.7, attention_1_none=0.6) == "cannot be told"


def test_accuracy_that_a_penalty_costs_is_judged_within_a_margin() -> None:
    def accuracies(taught: float) -> pd.DataFrame:
        keys = {"corpus": "yelp_hat", "layers": 1, "quantity": "accuracy"}
        values = {"none": 0.9, "rationale": taught}
        return pd.DataFrame(
            [{**keys, "penalty": name, "seed": seed, "value": value} for name, value in values.items() for seed in range(3)]
        )

    assert judged(CLAIMS["free"], accuracies(0.895)).answer == "holds"
    assert judged(CLAIMS["free"], accuracies(0.85)).answer == "does not hold"


def alone(quantity: str, value: float, **keys: Any) -> pd.DataFrame:
    told: Mapping[str, Any] = {
        "corpus": "yelp_hat",
        "layers": 1,
        "penalty": "none",
        "map": "attention",
        "quantity": quantity,
        **keys,
    }
    return pd.DataFrame([{**told, "seed": seed, "value": value + seed / 1000} for seed in range(3)])


def test_weights_are_uniform_above_nine_tenths_of_the_largest_entropy_and_only_without_penalty() -> None:
    assert judged(CLAIMS["uniform"], alone("entropy", 0.95)).answer == "holds"
    assert judged(CLAIMS["uniform"], alone("entropy", 0.5)).answer == "does not hold"
    assert judged(CLAIMS["uniform"], alone("entropy", 0.95, penalty="entropy")).answer == "cannot be told"


def test_weights_explain_little_where_their_auroc_is_near_chance() -> None:
    assert judged(CLAIMS["little"], alone("auroc", 0.52, average="micro")).answer == "holds"
    assert judged(CLAIMS["little"], alone("auroc", 0.7, average="micro")).answer == "does not hold"


def test_each_penalty_on_entropy_is_compared_with_none_by_both_metrics() -> None:
    def found(quantity: str, strong: float) -> pd.DataFrame:
        values = {"none": 0.5, "entropy": 0.6, "strong entropy": strong}
        return pd.concat([alone(quantity, value, penalty=name, average="micro") for name, value in values.items()])

    assert judged(CLAIMS["precise"], found("auprc", 0.7)).answer == "holds"
    assert judged(CLAIMS["precise"], found("auprc", 0.3)).answer == "holds in 1 of 2 cases"
    assert judged(CLAIMS["sharpened"], found("auroc", 0.3)).answer == "holds in 1 of 2 cases"
    assert judged(CLAIMS["sharpened"], found("auprc", 0.7)).answer == "cannot be told"
