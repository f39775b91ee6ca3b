"""The study of the course's positions: pairs told apart by negation, and how its claims judge made-up rows."""

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from conoscope.corpora import load_corpus
from conoscope.corpora.bistro import bistro
from conoscope.studies import STUDIES
from conoscope.studies.judging import Verdict, judged
from conoscope.studies.published.course_positions import ALIKE, STUDY
from conoscope.studies.published.negation_pairs import ADDED, KINDS, MOVED, answers_to_pairs, pairs
from conoscope.studies.reproducing import Reproducing, reproduce
from conoscope.training.building import untrained
from conoscope.training.settings import Training

ACCURACIES = {"none": 0.65, "sinusoidal": 0.95, "learned": 0.95, "relative": 0.96}
OF_PAIRS = {
    "none": {"cosine": 0.9, "share.flipped": 0.3, "share.right": 0.2},
    "positions": {"cosine": 0.1, "share.flipped": 0.9, "share.right": 0.85},
}


def verdicts(of_pairs: dict[str, dict[str, float]] = OF_PAIRS, **changed: float) -> dict[str, Verdict]:
    """What the claims come to, where models have these accuracies and answers to pairs; seeds differ a little."""
    rows = []
    for number, (positions, accuracy) in enumerate({**ACCURACIES, **changed}.items()):
        told = of_pairs["none" if positions == "none" else "positions"]
        found = {"accuracy": accuracy, **{f"{name}.{kind}": value for name, value in told.items() for kind in KINDS}}
        for corpus in ("imdb", "bistro"):
            chosen = found if corpus == "bistro" else {"accuracy": accuracy}
            rows += [
                {
                    "corpus": corpus,
                    "positions": positions,
                    "quantity": name,
                    "seed": seed,
                    "value": value + 1e-3 * (seed * number % 3),
                }
                for name, value in chosen.items()
                for seed in range(5)
            ]
    return {claim.name: judged(claim, pd.DataFrame(rows)) for claim in STUDY.claims}


def test_every_kind_of_positions_is_trained_alike_on_both_corpora() -> None:
    found = {(one.keys["corpus"], one.keys["positions"]): one.training for one in STUDY.conditions}
    assert {positions for _, positions in found} == {"none", "sinusoidal", "learned", "relative"}
    assert len(found) == 8
    for (_, positions), training in found.items():
        assert training is not None
        assert (training.positions, training.batches, training.preset) == (positions, "shuffled", "tp9-base")


def test_claims_hold_where_positions_decide() -> None:
    assert {name: verdict.answer for name, verdict in verdicts().items()} == dict.fromkeys(verdicts(), "holds")
    cases = {name: [case.case for case in verdict.cases] for name, verdict in verdicts().items()}
    assert cases["order"][0] == "imdb, sinusoidal"
    assert len(cases["order"]) == 6
    assert cases["scope"] == ["bistro, sinusoidal, moved", "bistro, learned, moved", "bistro, relative, moved"]
    assert len(cases["negation"]) == len(cases["apart"]) == 6


@pytest.mark.parametrize("claim", ["scope", "negation", "apart"])
def test_claims_on_pairs_do_not_hold_the_other_way_round(claim: str) -> None:
    turned = {"none": OF_PAIRS["positions"], "positions": OF_PAIRS["none"]}
    assert verdicts(turned)[claim].answer == "does not hold"


def test_positions_that_do_not_help_and_kinds_that_are_worse_are_told() -> None:
    assert verdicts(none=0.97)["order"].answer == "does not hold"
    assert verdicts(learned=0.95 - 2 * ALIKE)["possible"].answer == "holds in 2 of 4 cases"


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_of_the_words_and_labels_of_the_grammar(kind: str) -> None:
    found = list(pairs(kind))
    assert len(found) > 100
    assert len({(pair.one, pair.other) for pair in found}) == len(found)
    for pair in found:
        one, other = (Counter(text.rstrip(".").replace(",", "").split()) for text in (pair.one, pair.other))
        more = other - one
        assert (not more) if kind == MOVED else set(more) in ({"not"}, {"far", "from"})
        assert pair.one != pair.other
    assert {pair.label for pair in found} == ({"positive"} if kind == MOVED else {"positive", "negative"})


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_have_the_labels_of_the_corpus_and_are_not_in_its_training_texts(kind: str) -> None:
    opposite = {"positive": "negative", "negative": "positive"}
    labels = {pair.other: opposite[pair.label] for pair in pairs(kind)}
    test = {example.text: example.label for example in bistro("test", size=8000)}
    both = labels.keys() & test.keys()
    assert both
    assert all(labels[text] == test[text] for text in both)
    assert labels.keys().isdisjoint({example.text for example in load_corpus("bistro:train")})


def answers(positions: str) -> dict[str, float]:
    """The answers of an untrained model."""
    settings = Training(preset="tp9-base", layers=2, positions=positions, device="cpu")
    model = untrained(load_corpus("bistro:train").first(500), settings)
    return {row["quantity"]: row["value"] for row in answers_to_pairs(model)}


def test_without_positions_the_same_words_are_one_vector_and_one_answer() -> None:
    none = answers("none")
    assert none[f"cosine.{MOVED}"] == pytest.approx(1, abs=1e-6)
    assert none[f"share.flipped.{MOVED}"] == none[f"share.right.{MOVED}"] == 0
    assert none[f"cosine.{ADDED}"] < 1 - 1e-4
    assert all(answers(kind)[f"cosine.{MOVED}"] < 1 - 1e-5 for kind in ("sinusoidal", "relative"))


def test_the_quick_form_answers_pairs_on_bistro(tmp_path: Path) -> None:
    options = Reproducing(device="cpu", jobs=1, quick=True, seeds=1, data_dir=str(tmp_path))
    record: dict[str, Any] = reproduce("course-positions", tmp_path / "out", options)
    assert not record["failed"]
    found = {(row["positions"], row["quantity"]): row["mean"] for row in record["means"]}
    assert len(found) == 4 * 8
    assert found["none", f"share.flipped.{MOVED}"] == 0
    assert STUDIES["course-positions"] is STUDY
