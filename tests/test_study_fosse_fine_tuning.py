from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cones import answer, medians, quantities
from conoscope.common.errors import ModelError
from conoscope.studies import STUDIES, checkpoints
from conoscope.studies.base import MINILM, Condition
from conoscope.studies.checkpoints import with_checkpoint, without_checkpoint
from conoscope.studies.judging import averaged, compared
from conoscope.studies.reproducing import Reproducing, reproduce

STUDY = STUDIES["fosse-fine-tuning"]
KEYS = {"corpus": "newsgroups", "model": "MiniLM"}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory, model: Path) -> dict[str, Any]:
    """The quick form on bistro, with a small model of ours in the place of MiniLM."""
    folder = tmp_path_factory.mktemp("tuning")
    options = Reproducing(quick=True, seeds=1, jobs=1, device="cpu", data_dir=str(folder), model=str(model))
    return reproduce("fosse-fine-tuning", folder / "out", options)


def test_published_medians_of_pairs_are_in_the_order_of_the_code_not_of_the_figures_axis() -> None:
    of = {
        (one.keys["class"], one.keys["gold"]): one.value
        for one in STUDY.published
        if one.keys["corpus"] == "esnli" and one.keys["quantity"] == "median.hidden"
    }
    assert len(of) == 9
    assert all(of[label, label] == max(of[label, gold] for gold in ("entailment", "neutral", "contradiction")) for label, _ in of)
    # Entailment and contradiction are the two that are orthogonal; neutral, the class in between, is near both.
    assert of["entailment", "contradiction"] == 0.04
    assert of["contradiction", "entailment"] == 0.085
    assert of["neutral", "contradiction"] == 0.545
    assert answer(STUDY, "between", medians({**KEYS, "corpus": "esnli"}, of)) == "holds"


def test_published_figures_are_of_bert_and_get_no_verdict_beside_minilm() -> None:
    assert {one.model for one in STUDY.published} == {"bert-base-uncased"}
    tags = {(one.keys["corpus"], one.keys["quantity"], one.keys["stage"]): one.tag for one in STUDY.published}
    assert tags["newsgroups", "pearson.first", "after"] == "N"
    assert (tags["esnli", "sim.hidden.last", "before"], tags["esnli", "sim.hidden.last", "after"]) == ("F", "N")
    found = quantities({**KEYS, "corpus": "esnli"}, after_sim_hidden_last=0.6901, before_sim_hidden_last=0.41)
    beside = compared(averaged(found.assign(layer=None)), STUDY.published)
    assert set(beside["holds"]) == {"of bert-base-uncased"}
    assert len(beside) == 2


def test_the_quick_form_reads_a_model_before_and_after_fine_tuning(record: dict[str, Any]) -> None:
    assert record["failed"] == []
    stages = pd.DataFrame(record["means"]).groupby("stage")["quantity"].agg(set)
    both = {"cosine.own", "cosine.other", "nearest", "control.norm", "sim.hidden", "sim.key.last", "share.effective_rank"}
    assert both <= stages["before"] & stages["after"]
    assert {"agreement", "share.nearest", "cosine.own.mixed"} <= stages["after"] - stages["before"]
    assert {claim["name"] for claim in record["claims"]} == {claim.name for claim in STUDY.claims}


def test_every_condition_shuffles_its_batches_and_tunes_the_checkpoint() -> None:
    assert [condition.keys["corpus"] for condition in STUDY.conditions] == ["imdb", "esnli", "hatexplain", "newsgroups"]
    assert all(condition.training is not None and condition.training.batches == "shuffled" for condition in STUDY.conditions)
    assert all(condition.wants_checkpoint for condition in STUDY.conditions)


def test_a_correlation_must_lie_above_one_half() -> None:
    assert answer(STUDY, "classes", quantities(KEYS, after_pearson_first=0.8)) == "holds"
    assert answer(STUDY, "classes", quantities(KEYS, after_pearson_first=0.4)) == "does not hold"


def test_anisotropy_that_grows_in_the_last_layer_alone_is_not_everywhere() -> None:
    last = {"after_sim_hidden_last": 0.9, "before_sim_hidden_last": 0.4}
    mean = {"after_sim_hidden_mean": 0.39, "before_sim_hidden_mean": 0.41}
    found = quantities(KEYS, **last, **mean)
    assert (answer(STUDY, "reinforced", found), answer(STUDY, "everywhere", found)) == ("holds", "does not hold")


def test_the_model_that_a_user_names_takes_the_place_of_minilm() -> None:
    named = list(with_checkpoint([*STUDY.conditions, Condition({}, "bistro", model=MINILM)], "some/model"))
    assert {condition.training.checkpoint for condition in named if condition.training} == {"some/model"}
    assert named[-1].model == "some/model"


def test_without_minilm_a_study_asks_for_a_model_and_the_quick_form_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"no model to begin with.*give --model FOLDER"):
        list(with_checkpoint(STUDY.conditions, None))
    assert not any(condition.wants_checkpoint for condition in without_checkpoint(STUDY.conditions, None))
    assert without_checkpoint(STUDY.conditions, "some/model") == list(STUDY.conditions)
