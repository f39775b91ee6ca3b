"""Comparing models: scores against scikit-learn's, intervals and tests against their definitions."""

import copy
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.cli import main
from conoscope.common.errors import CorpusError, ModelError
from conoscope.common.resampling import INTERVAL, weightings_within
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.training.comparison import _tables, compare, mcnemar, predictions
from conoscope.training.scores import accuracy, confusion, f1_of, macro_f1, mean_f1, per_class


@pytest.mark.parametrize("classes", [2, 5])
def test_scores_are_those_of_scikit_learn(classes: int) -> None:
    chance = np.random.default_rng(0)
    for count in (30, 3) * 10:
        true, predicted = chance.integers(classes, size=(2, count))
        every = list(range(classes))
        assert accuracy(predicted, true) == pytest.approx(accuracy_score(true, predicted))
        assert macro_f1(predicted, true, classes) == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))
        assert (confusion(predicted, true, classes) == confusion_matrix(true, predicted, labels=every)).all()


def test_what_was_found_of_each_class_and_of_one_that_is_not_there() -> None:
    found = per_class(np.array([0, 1, 1, 0]), np.array([0, 0, 1, 0]), ["a", "b", "c"])
    assert found == {"a": pytest.approx(2 / 3), "b": 1.0, "c": None}


def test_a_class_that_is_neither_there_nor_predicted_has_no_f1() -> None:
    found = f1_of(confusion(np.array([0, 1, 0]), np.array([0, 0, 0]), 4))
    assert found[:2].tolist() == [pytest.approx(0.8), 0.0]
    assert np.isnan(found[2:]).all()
    assert macro_f1(np.array([0, 1, 0]), np.array([0, 0, 0]), 4) == pytest.approx(0.4)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=25).filter(any), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_a_perfect_classifier_is_perfect_in_every_resample(sizes: list[int], more: int) -> None:
    true = np.repeat(np.arange(len(sizes)), sizes)
    (row,) = _tables(["perfect"], true[None], true, len(sizes) + more).scores.to_dict("records")
    assert (row["macro_f1"], row["macro_f1_low"], row["macro_f1_high"]) == (1, 1, 1)
    assert (row["accuracy"], row["accuracy_low"], row["accuracy_high"]) == (1, 1, 1)


def test_the_interval_of_macro_f1_covers_at_about_its_rate_with_many_small_classes() -> None:
    chance, classes, each, right, trials = np.random.default_rng(1), 20, 5, 0.7, 200
    table = np.full((classes, classes), (1 - right) / (classes - 1))
    np.fill_diagonal(table, right)
    true = np.repeat(np.arange(classes), each)
    truth, covered = mean_f1(table), 0
    for _ in range(trials):
        wrong = (true + chance.integers(1, classes, len(true))) % classes
        predicted = np.where(chance.random(len(true)) < right, true, wrong)
        cells = true * classes + predicted
        drawn = [mean_f1(np.bincount(cells, w, classes**2).reshape(classes, classes)) for w in next(weightings_within(true, 300))]
        low, high = np.quantile(drawn, INTERVAL)
        covered += low <= truth <= high
    # Three standard deviations of a share of 200 below .95.
    assert covered / trials >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / trials)


def test_weights_within_groups_add_up_to_the_groups_and_spread_as_their_means_do() -> None:
    groups = np.array([0, 0, 1, 2, 2, 2, 2])
    weights = np.concatenate(list(weightings_within(groups, 20_000)))
    for group in (0, 1, 2):
        assert weights[:, groups == group].sum(1) == pytest.approx((groups == group).sum())
    assert weights.mean(0) == pytest.approx(1, abs=0.05)
    values = np.array([0.0, 1, 5, 1, 2, 3, 6])
    mean = weights[:, groups == 2] @ values[groups == 2] / 4
    assert mean.var() == pytest.approx(values[groups == 2].var(ddof=1) / 4, rel=0.05)


def test_mcnemar_is_the_exact_binomial_test() -> None:
    one = np.array([True] * 9 + [False] * 2 + [True] * 50)
    other = np.array([False] * 9 + [True] * 2 + [True] * 50)
    expected = 2 * sum(comb(11, k) for k in range(3)) / 2**11
    assert mcnemar(one, other) == mcnemar(other, one) == pytest.approx(expected)
    assert mcnemar(one, one) == 1.0
    assert mcnemar(one[:18], ~one[:18]) < 1


def test_predictions_stand_in_the_order_of_the_corpus(pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(40)
    predicted, true = predictions(pure, corpus, batch_size=7)
    numbers = {label: number for number, label in enumerate(corpus.labels)}
    assert true.tolist() == [numbers[e.label] for e in corpus]
    alone = [int(predictions(pure, corpus.shard(place, 40))[0][0]) for place in range(1, 41)]
    assert predicted.tolist() == alone


def test_the_same_model_twice_does_not_differ(pure: LoadedModel) -> None:
    found = compare([pure, pure], load_corpus("bistro:test").first(60))
    (pair,) = found.pairs.to_dict("records")
    assert (pair["difference"], pair["difference_low"], pair["difference_high"], pair["p"]) == (0, 0, 0, 1)
    first, second = found.scores.to_dict("records")
    assert first["accuracy"] == second["accuracy"]
    assert first["accuracy_low"] <= first["accuracy"] <= first["accuracy_high"]
    assert first["macro_f1_low"] <= first["macro_f1"] <= first["macro_f1_high"]
    spread = np.sqrt(first["accuracy"] * (1 - first["accuracy"]) / 60)
    assert first["accuracy_high"] - first["accuracy_low"] == pytest.approx(2 * 1.96 * spread, rel=0.15)


def test_a_better_model_is_better_by_what_only_it_gets_right(pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(60)
    predicted, true = predictions(pure, corpus)
    worse = copy.deepcopy(pure.module)
    with torch.no_grad():
        worse.classifier.weight.copy_(-worse.classifier.weight)
        worse.classifier.bias.copy_(-worse.classifier.bias)
    (pair,) = compare([pure, load_model(worse, pure.tokenizer)], corpus).pairs.to_dict("records")
    right = float((predicted == true).mean())
    assert pair["difference"] == pytest.approx(right - (1 - right))
    assert (pair["only_model_right"], pair["only_other_right"]) == (round(60 * right), round(60 * (1 - right)))
    assert pair["difference_low"] <= pair["difference"] <= pair["difference_high"]


def test_labels_meet_by_name_whatever_their_order(pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(30)
    turned = replace(corpus, labels=corpus.labels[::-1])
    one, other = (compare([pure], c).scores.to_dict("records")[0] for c in (corpus, turned))
    assert one["accuracy"] == other["accuracy"]


def test_mcnemar_is_quick_and_right_with_many_examples() -> None:
    one, other = np.zeros(30000, dtype=bool), np.zeros(30000, dtype=bool)
    one[:15100], other[15100:] = True, True
    expected = Fraction(2 * sum(accumulate(range(14900), lambda ways, k: ways * (30000 - k) // (k + 1), initial=1)), 2**30000)
    assert mcnemar(one, other) == pytest.approx(float(expected), rel=1e-8)


def test_what_cannot_be_compared_is_told(pure: LoadedModel, minilm: LoadedModel) -> None:
    with pytest.raises(CorpusError, match="has no labels to compare models by"):
        compare([pure], Corpus.of([Example("soup")]))
    with pytest.raises(ModelError, match="is no classifier; give a model that was trained on labels"):
        compare([minilm], load_corpus("bistro:test").first(4))


def test_the_command_prints_and_writes_the_tables(pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pure.module.save_pretrained(tmp_path / "a")
    pure.tokenizer.save_pretrained(tmp_path / "a")
    folder = str(tmp_path / "a")
    command = [
        "compare",
        folder,
        folder,
        "bistro:test",
        "--limit",
        "30",
        "-o",
        str(tmp_path / "t.csv"),
        "--device",
        "cpu",
    ]
    assert main(command) == 0
    assert "only_model_right" in capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "t.csv")) == 2
    assert len(pd.read_csv(tmp_path / "t-pairs.csv")) == 1
    assert main([*command[:-4], "-o", str(tmp_path / "nowhere" / "t.csv"), "--device", "cpu"]) == 2
