from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from conoscope.capture.loading import load_model
from conoscope.corpora import Example, load_corpus
from conoscope.explaining.records import Explanation
from conoscope.studies import STUDIES
from conoscope.studies.base import NEW_BERT
from conoscope.studies.checkpoints import new_bert
from conoscope.studies.judging import judged
from conoscope.studies.published.bonino_gates import SEEDS
from conoscope.studies.published.bonino_reading import _answers
from conoscope.studies.published.spike_domains import DOMAINS, places, shares, variety
from conoscope.studies.reproducing import Reproducing, reproduce
from conoscope.training.settings import Training

STUDY = STUDIES["bonino-gates"]
CLAIMS = {claim.name: claim for claim in STUDY.claims}
WORDS = 425


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_domain_is_the_k_mers_that_hold_one_of_its_bases(domain: str) -> None:
    first, last = DOMAINS[domain]
    bases = set(range(3 * (first - 1), 3 * last))
    assert places(domain, WORDS).tolist() == [bool(bases & set(range(9 * word, 9 * word + 12))) for word in range(WORDS)]


def test_what_lies_in_the_rbd_is_of_it_and_of_s1_alone() -> None:
    found = dict(shares(places("RBD", WORDS).astype(float)))
    assert found["RBD"] == found["S1"] == 1
    assert found["S2"] == found["NTD"] == 0
    assert dict(shares(np.ones(WORDS)))["RBD"] == pytest.approx(75 / 425, abs=1 / 425)
    assert not dict(shares(np.zeros(WORDS)))


def test_variety_is_the_entropy_of_a_place() -> None:
    assert variety([("a", "b"), ("a", "c")]).tolist() == pytest.approx([0, np.log(2)])


def told(text: str, label: str, predicted: str) -> Explanation:
    return Explanation(Example(text, label), predicted, np.ones(1, dtype=bool), {}, "m")


def test_accuracy_has_the_cap_of_equal_texts_and_classes_their_own_scores() -> None:
    given = [told("t", "a", "a"), told("t", "a", "a"), told("t", "b", "a"), told("u", "b", "b")]
    found = {(row["quantity"], row.get("class")): row["value"] for row in _answers(given, ("a", "b", "absent"))}
    assert found["accuracy", None] == found["cap", None] == 0.75
    assert found["accuracy.of_cap", None] == 1
    assert (found["found", "a"], found["found", "b"], found["found", None]) == (1, 0.5, 0.75)
    assert (found["specificity", "a"], found["specificity", "b"]) == (0.5, 1)
    assert found["f1", "a"] == pytest.approx(0.8)
    assert found["taken", "b"] == 1
    assert ("found", "absent") not in found


def rows(seeds: int = 3, **numbers: float) -> pd.DataFrame:
    """Some seeds that differ a little; `cone_2` is the cone index of layer 2, `RBD_attention` what a domain has."""
    made = []
    for name, value in numbers.items():
        head, _, tail = name.partition("_")
        keys = {
            "cone": {"quantity": "cone.hidden", "layer": tail},
            "heads": {"quantity": "heads", "gate": tail.replace("_", " ")},
            "ranks": {"quantity": f"ranks.{tail}", "layer": 1},
            "share": {"quantity": f"share.{tail}"},
        }.get(head, {"quantity": tail, "domain": head} if tail else {"quantity": name.replace("of", "accuracy.of_cap")})
        step = 0 if head in ("heads", "kinds") else 1e-4
        made += [{**keys, "value": value + seed * step, "seed": seed, "model": "m", "texts": "correct"} for seed in range(seeds)]
    columns = ["model", "seed", "texts", "quantity", "layer", "gate", "domain", "class", "value"]
    found = pd.DataFrame(made).reindex(columns=columns)
    return found.assign(layer=found["layer"].astype(float))


@pytest.mark.parametrize(
    ("claim", "holding", "failing"),
    [
        ("accuracy", {"of": 0.95}, {"of": 0.8}),
        ("cones", {"cone_0": 0.1, "cone_1": 0.05, "cone_2": 0.6}, {"cone_0": 0.3, "cone_1": 0.6, "cone_2": 0.2}),
        ("domains", {"RBD_attention": 0.4, "RBD_words": 0.2}, {"RBD_attention": 0.1, "RBD_words": 0.2}),
        ("directed", {"share_directed": 0.99}, {"share_directed": 0.8}),
        ("softmax", {"ranks_softmax": 400, "ranks_scores": 64}, {"ranks_softmax": 60, "ranks_scores": 64}),
        ("parts", {"share_attention": 0.2, "share_forward": 0.3}, {"share_attention": 0.05, "share_forward": 0.02}),
    ],
)
def test_a_claim_holds_or_not(claim: str, holding: dict[str, float], failing: dict[str, float]) -> None:
    assert judged(CLAIMS[claim], rows(**holding)).answer == "holds"
    assert judged(CLAIMS[claim], rows(**failing)).answer == "does not hold"


@pytest.mark.parametrize(
    ("claim", "numbers"),
    [
        ("several", {"kinds": 3}),
        ("captioned", {"heads_open": 4, "heads_directional": 3}),
        ("both", {"heads_forward_contextual_and_backward_contextual": 3}),
    ],
)
def test_gates_are_found_if_most_models_have_them_and_not_if_one_has_many(claim: str, numbers: dict[str, float]) -> None:
    assert CLAIMS[claim].found
    every, none = rows(SEEDS, **numbers), rows(SEEDS, **dict.fromkeys(numbers, 0))
    one = none.assign(value=none["value"].mask(none["seed"] == 0, 12))
    most = every.assign(value=every["value"].mask(every["seed"] == 0, 0))
    some = every.assign(value=every["value"].mask(every["seed"] < 3, 0))
    assert judged(CLAIMS[claim], every).answer == "holds"
    assert judged(CLAIMS[claim], none).answer == "does not hold"
    assert judged(CLAIMS[claim], one).answer == "does not hold"
    assert judged(CLAIMS[claim], most).answer == "holds"
    assert judged(CLAIMS[claim], some).answer == "unclear"
    assert judged(CLAIMS[claim], every[every["seed"] < 5]).answer == "unclear"


def test_one_head_is_enough_for_a_gate_and_one_kind_is_not_several() -> None:
    assert judged(CLAIMS["captioned"], rows(SEEDS, heads_open=1)).answer == "holds"
    assert judged(CLAIMS["several"], rows(SEEDS, kinds=1)).answer == "does not hold"
    assert judged(CLAIMS["several"], rows(SEEDS, kinds=2)).answer == "holds"


def test_all_texts_and_correct_ones_are_cases_of_their_own() -> None:
    both = pd.concat((rows(cone_0=0.1, cone_2=0.6).assign(texts="all"), rows(cone_0=0.1, cone_2=0.7)))
    cases = {case.case: case.passing.mean for case in judged(CLAIMS["cones"], both).cases}
    assert cases == {"m, all": pytest.approx(0.5), "m, correct": pytest.approx(0.6)}


def test_records_without_that_key_are_of_all_texts() -> None:
    found = rows(cone_0=0.1, cone_2=0.6).drop(columns="texts")
    assert [case.case for case in judged(CLAIMS["cones"], found).cases] == ["m, all"]


def test_published_figures_are_those_of_the_source() -> None:
    figures = {one.keys["quantity"]: one for one in STUDY.published}
    assert round(figures["accuracy"].value, 4) == 0.985
    assert figures["share.rank.softmax"].value * 512 == pytest.approx(460.4, abs=0.1)
    assert figures["share.rank.context"].value * 64 * 144 == pytest.approx(64 * 144 - 4)
    assert {(one.tag, one.model) for one in STUDY.published} == {("N", "bert-base-cased")}


def test_three_models_are_trained_on_shuffled_batches_and_one_has_the_k_mers_added() -> None:
    assert [(one.keys["model"], one.added_words) for one in STUDY.conditions] == [
        ("pure-attention", False),
        ("small BERT", False),
        ("MiniLM with k-mers", True),
    ]
    assert {one.training.batches for one in STUDY.conditions if one.training is not None} == {"shuffled"}
    assert STUDY.seeds >= 5


def test_a_new_bert_is_of_its_seed_and_shape(tmp_path: Path) -> None:
    corpus = load_corpus("bistro:train").first(40)
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        new_bert(corpus, Training(checkpoint=NEW_BERT, layers=3, width=16, heads=2, seed=seed), str(tmp_path / name))
    one, same, other = (load_model(tmp_path / name, device="cpu").module for name in ("one", "same", "other"))
    weights = [model.get_input_embeddings().weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert (one.config.num_hidden_layers, one.config.hidden_size, one.config.num_attention_heads) == (3, 16, 2)


def test_the_quick_form_reads_every_model_on_all_texts_and_on_correct_ones(tmp_path: Path) -> None:
    options = Reproducing(quick=True, seeds=1, jobs=1, device="cpu", data_dir=str(tmp_path))
    record = reproduce("bonino-gates", tmp_path / "out", options)
    assert record["failed"] == []
    for model, heads in (("pure-attention", 12), ("small BERT", 16), ("MiniLM with k-mers", 72)):
        mine = [row for row in record["means"] if row["model"] == model]
        for texts in ("all", "correct"):
            read = [row for row in mine if row.get("texts") == texts]
            gates = [row["mean"] for row in read if row["quantity"] == "heads" and " and " not in row["gate"]]
            assert sum(gates) >= heads
            assert all(0 <= row["mean"] <= 1 for row in read if row["quantity"].startswith("cone."))
            assert {"stream.cosine", "stream.attention_share"} <= {row["quantity"] for row in read}
        for site in ("query", "key", "value"):
            bins = [row["mean"] for row in mine if row["quantity"] == f"histogram.{site}"]
            assert sum(bins) == pytest.approx(1, abs=1e-3)
        for gate in ("directional", "open", "contextual"):
            cells = {(row["query"], row["key"]): row["mean"] for row in mine if row["quantity"] == f"map.{gate}"}
            assert len(cells) == 64
            assert all(sum(cells[query, key] for key in range(1, 9)) == pytest.approx(1, abs=1e-3) for query in range(1, 9))
        assert {row["quantity"] for row in mine} >= {"share.directed", "largest.query", "ranks.softmax", "share.rank.context"}
        assert ("share.forward" in {row["quantity"] for row in mine}) == (model != "pure-attention")
