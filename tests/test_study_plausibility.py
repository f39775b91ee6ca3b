from typing import Any

import pandas as pd
import pytest

from conoscope.studies import STUDIES
from conoscope.studies.judging import judged
from conoscope.studies.published.plausibility import MAPS
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


def test_published_figures_are_those_of_the_sources() -> None:
    found = {
        (one.keys["corpus"], one.keys["layers"], one.keys["quantity"]): (one.value, one.tag, one.keys.get("map"))
        for one in STUDY.published
    }
    assert found["hatexplain", 1, "auroc"] == (0.7085, "N", "attention")
    assert found["hatexplain", 3, "auroc"] == (0.5199, "N", "attention")
    assert found["yelp_hat", 1, "auroc"] == (0.7116, "N", "attention")
    assert found["yelp_hat", 3, "auprc"] == (0.2955, "N", "attention")
    assert found["hatexplain", 1, "auprc"] == (0.5218, "N", "attention")
    assert len(found) == len(STUDY.published) == 12


def test_the_quick_form_judges_every_map_beside_chance(record: dict[str, Any]) -> None:
    assert record["failed"] == []
    means = pd.DataFrame(record["means"])
    assert set(means["map"].dropna()) == {*MAPS, "random"}
    assert set(means["average"].dropna()) == {"micro", "macro"}
    assert {"accuracy", "auroc", "auprc", "density"} == set(means["quantity"])
    assert set(means["penalty"]) == {"none", "rationale"}
    assert all(claim["cases"] for claim in record["claims"] if claim["name"] != "sharpened")


def test_penalties_are_on_the_layer_whose_map_is_read() -> None:
    for condition in STUDY.conditions:
        assert condition.training is not None
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
