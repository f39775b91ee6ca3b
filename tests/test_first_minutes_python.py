"""The first minutes from Python: what users of pandas, scikit-learn and transformers type first, each line as typed."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
import torch
from transformers import pipeline

import conoscope as cs
from architectures import tiny
from conoscope.capture.trace import SITES
from conoscope.cli import main
from conoscope.common.errors import ConoscopeError, CorpusError, MeasureError, ModelError, OutputError
from conoscope.explaining import Judging
from conoscope.explaining.records import Explanations
from conoscope.models.family import SelfAttentionForSequenceClassification
from conoscope.results.differences import NOT_KEPT, OTHER_TEXTS
from conoscope.results.largest import FEWEST
from conoscope.results.pairing import NO_MEAN
from conoscope.training.splits import splits_to_train

HOSTILE = "</span><script>alert(1)</script>\u202e"
TWO = ["the soup was good", "a cold and bitter soup"]


class Dataset:
    """Stands for a data set of the library `datasets`: columns by name, rows as dictionaries, features that name classes."""

    def __init__(self, rows: list[dict[str, Any]], names: list[str] | None = None) -> None:
        self.rows, self.column_names, self.split = rows, list(rows[0]), "test"
        self.features = dict.fromkeys(self.column_names)
        self.features["label"] = type("ClassLabel", (), {"names": names})() if names else None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@pytest.fixture(scope="module")
def other(pure: cs.LoadedModel) -> cs.LoadedModel:
    torch.manual_seed(7)
    return cs.load_model(SelfAttentionForSequenceClassification(pure.module.config).double(), pure.tokenizer)


@pytest.fixture(scope="module")
def result(pure: cs.LoadedModel) -> cs.Result:
    return cs.measure(pure, "bistro:test", ["sim", "gates", "class_cones", "self_sim", "effective_rank"], limit=40)


@pytest.fixture(scope="module")
def of_other(other: cs.LoadedModel) -> cs.Result:
    return cs.measure(other, "bistro:test", ["sim", "gates", "class_cones", "self_sim", "effective_rank"], limit=40)


FRAME = pd.DataFrame({"review": TWO, "stars": [1, 0], "more": [None, 2.5]})
ROWS = [{"text": text, "label": label} for text, label in zip(TWO, ("positive", "negative"), strict=True)]
FORMS: dict[str, tuple[Any, dict[str, str], tuple[str, ...], int]] = {
    "a string": ("a good film", {}, (), 1),
    "a list of strings": (["a good film"], {}, (), 1),
    "a list of one word": (["soup"], {}, (), 1),
    "a tuple of three strings": (("a", "b", "c"), {}, (), 3),
    "a generator": ((text for text in TWO), {}, (), 2),
    "a Series": (pd.Series(TWO), {}, (), 2),
    "an array": (np.array(TWO), {}, (), 2),
    "pairs": ([("a good film", "positive"), ("a bad one", "negative")], {}, ("negative", "positive"), 2),
    "dictionaries": (ROWS, {}, ("negative", "positive"), 2),
    "one dictionary": (ROWS[0], {}, ("positive",), 1),
    "columns": ({"text": TWO, "label": [1, 0]}, {}, ("0", "1"), 2),
    "a DataFrame": (FRAME, {"text": "review", "label": "stars"}, ("0", "1"), 2),
    "a DataFrame without labels": (FRAME, {"text": "review"}, (), 2),
    "a Dataset": (Dataset(ROWS), {}, ("negative", "positive"), 2),
    "a Dataset that names its classes": (
        Dataset([{"sentence": text, "label": number} for number, text in enumerate(TWO)], ["negative", "positive"]),
        {"text": "sentence"},
        ("negative", "positive"),
        2,
    ),
    "an example": (cs.Example("a good film", "positive"), {}, ("positive",), 1),
    "examples": ((cs.Example(text) for text in TWO), {}, (), 2),
    "a corpus": (cs.load_corpus("bistro:test").first(3), {}, ("negative", "positive"), 3),
}


@pytest.mark.parametrize("form", FORMS)
def test_texts_are_measured_in_any_form(form: str, pure: cs.LoadedModel) -> None:
    texts, columns, labels, size = FORMS[form]
    known = columns.get("label") or labels == ("0", "1")  # a model that names its classes refuses numbers, and says so
    found = cs.measure(pure, texts, "sim", **columns, labels=not known)
    assert found.provenance["seen"]["examples"] == size
    assert found["sim"]["n"].max() == size if form != "a list of one word" else True
    assert known or tuple(found.provenance["corpus"]["labels"]) == labels


def test_every_form_gives_the_same_numbers(pure: cs.LoadedModel) -> None:
    forms: list[tuple[Any, dict[str, str]]] = [
        (TWO, {}), (tuple(map(cs.Example, TWO)), {}), ([*zip(TWO, "ab", strict=True)], {}), (FRAME, {"text": "review"}),
        (Dataset([{"q": text} for text in TWO]), {"text": "q"}), ({"text": TWO}, {}),
    ]  # fmt: skip
    numbers = ["value", "sd", "n"]  # other columns are of samples, which are drawn by the names of the texts
    tables = [cs.measure(pure, texts, "sim", labels=False, **columns)["sim"][numbers] for texts, columns in forms]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_a_string_is_a_file_or_a_corpus_where_it_names_one_and_else_a_text(
    pure: cs.LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my reviews.csv").write_text("review,stars\nfine soup,positive\nbad soup,negative\n", encoding="utf-8")
    (tmp_path / "good soup").mkdir()

    def read(given: str, **columns: str) -> str:
        return str(cs.measure(pure, given, "sim", limit=2, **columns).provenance["corpus"]["name"])

    assert read("my reviews.csv", text="review") == "my reviews.csv"
    assert read("bistro:test") == read("bistro") == "bistro"
    for text in ("bistro test", "bistro: a place to eat", "good and/or bad", "soup\nand wine"):
        assert read(text) == "texts", text
    with pytest.raises(CorpusError, match=r"'soup' is neither a file nor a known corpus; a text of one word is given in a list"):
        read("soup")
    with pytest.raises(CorpusError, match=r"'bistre' is neither a file nor a known corpus \(did you mean 'bistro'\?\)"):
        read("bistre")
    with pytest.raises(CorpusError, match=r"no file 'no such.csv'; if it is a text, give it in a list"):
        read("no such.csv")
    with pytest.raises(CorpusError, match="no corpus"):
        read("good soup")  # a folder is not taken for a text
    for empty in ("", "  \n"):
        with pytest.raises(CorpusError, match="the text is empty"):
            read(empty)


def test_numbers_of_labels_get_the_names_that_the_model_has(pure: cs.LoadedModel) -> None:
    columns = {"text": "review", "label": "stars"}
    with pytest.raises(ModelError, match=r"has the label '0', which .* does not have .*label_names=.*in Python labels=False"):
        cs.measure(pure, FRAME, "sim", **columns)
    found = cs.measure(pure, FRAME, "sim", **columns, label_names=("negative", "positive"))
    assert found.provenance["corpus"]["labels"] == ["negative", "positive"]
    assert found.provenance["seen"]["labelled"] == 2


@pytest.mark.parametrize("names", [{0: "negative", 1: "positive"}, {"1": "positive", "0": "negative"}, "negative, positive",
                                   "1=positive,0=negative", ["negative", "positive"]])  # fmt: skip
def test_names_of_labels_are_taken_in_any_form(names: Any) -> None:
    corpus = cs.load_corpus(FRAME, text="review", label="stars", label_names=names)
    assert [example.label for example in corpus] == ["positive", "negative"]
    assert cs.load_corpus([*zip(TWO, (1, 0), strict=True)], label_names=names).labels == ("negative", "positive")


def test_options_are_taken_as_a_dictionary_and_stay_dataclasses(pure: cs.LoadedModel) -> None:
    assert cs.measure(pure, "bistro:test", "sim", options={"limit": 3}).provenance["seen"]["examples"] == 3
    assert len([*cs.explain(pure, "bistro:test", "attention", {"limit": 2})]) == 2
    assert replace(cs.Options(limit=3), limit=4) == cs.Options(limit=4)
    assert "limit" in inspect.signature(cs.Options).parameters
    with pytest.raises(TypeError):
        cs.Options(*range(99))


def test_a_layer_that_a_trace_lacks_is_a_key_that_it_lacks(pure: cs.LoadedModel) -> None:
    with pytest.raises(KeyError, match="layers count from 1"):
        cs.trace(pure, "a b")["weights"][0]


TINY = {"epochs": 1, "layers": 1, "width": 8, "progress": False}


def test_a_model_is_trained_on_texts_in_any_form(tmp_path: Path) -> None:
    few = [*cs.load_corpus("bistro:train").first(40)]
    pairs = [(example.text, example.label) for example in few]
    (tmp_path / "r").mkdir()
    for split in ("train", "test"):
        pd.DataFrame(pairs, columns=["review", "stars"]).to_csv(tmp_path / "r" / f"{split}.csv", index=False)
    columns = {"text": "review", "label": "stars"}
    forms: list[tuple[Any, dict[str, Any], set[str]]] = [
        (pairs, {}, {"validation"}),
        (tmp_path / "r" / "train.csv", columns, {"validation"}),
        (tmp_path / "r", columns, {"validation", "test"}),
        (pd.DataFrame(pairs, columns=["review", "stars"]), {**columns, "validation": cs.Corpus.of(few[:8])}, {"validation"}),
        ({"train": pairs, "validation": pairs[:8], "later": pairs[8:16]}, {}, {"validation", "later"}),
    ]
    for number, (texts, more, splits) in enumerate(forms):
        trained = cs.train(texts, tmp_path / str(number), **TINY, **more)
        assert set(trained.scores) == splits, number
        assert cs.load_model(trained.folder).module.config.num_hidden_layers == 1
    with pytest.raises(CorpusError, match="no split 'train' to train with; there is test"):
        cs.train({"test": pairs}, tmp_path / "x")


def test_training_takes_the_first_texts_of_each_split_as_the_command_does(tmp_path: Path) -> None:
    cs.train("bistro", tmp_path / "python", limit=40, device="cpu", **TINY)
    line = ["train", "bistro", "-o", str(tmp_path / "shell"), "--limit", "40", "--epochs", "1", "--layers", "1", "--width", "8"]
    assert main([*line, "--device", "cpu", "--quiet"]) == 0
    facts = [json.loads((tmp_path / name / "training.json").read_text(encoding="utf-8")) for name in ("python", "shell")]
    assert {split: corpus["examples"] for split, corpus in facts[0]["corpora"].items()} == dict.fromkeys(
        ("train", "validation", "test"), 40
    )
    assert facts[0]["corpora"] == facts[1]["corpora"]
    assert facts[0]["scores"] == facts[1]["scores"]
    for wrong in (0, True, "40"):
        with pytest.raises(MeasureError, match=r"limit=.* is not a whole number from 1"):
            cs.train("bistro", tmp_path / "x", limit=wrong)
    for name, said in (
        ("limt", r"did you mean 'limit'\?"),
        ("lr", "the name is learning_rate"),
        ("from_", "the name is checkpoint"),
    ):
        with pytest.raises(MeasureError, match=said):
            cs.train("bistro", tmp_path / "x", **{name: 3})


def test_training_draws_no_bars_of_transformers(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    few = cs.load_corpus("bistro:train").first(16)
    capfd.readouterr()
    cs.train(few, tmp_path / "tuned", checkpoint=model, epochs=1, device="cpu")
    assert "%|" not in capfd.readouterr().err


def test_a_corpus_is_trained_on_by_its_name() -> None:
    found = splits_to_train("bistro", cs.Columns(), 0, None)
    assert list(found) == ["train", "validation", "test"]
    assert [found["train"].name, found["validation"].split] == ["bistro", "validation"]


def test_loading_a_model_draws_no_bars(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    logging.enable_progress_bar()
    try:
        cs.load_model(model)
        assert logging.is_progress_bar_enabled()
    finally:
        if not before:
            logging.disable_progress_bar()
    assert "Loading" not in capfd.readouterr().err


def test_texts_of_a_program_become_a_corpus() -> None:
    corpus = cs.load_corpus(FRAME, text="review", label="stars")
    assert [example.label for example in corpus] == ["1", "0"]
    assert [example.text for example in cs.load_corpus(TWO)] == TWO


def test_a_path_is_a_file(pure: cs.LoadedModel, tmp_path: Path) -> None:
    path = tmp_path / "reviews.tsv"
    path.write_text("review\tstars\nfine soup\tpositive\n", encoding="utf-8")
    assert len(cs.load_corpus(path, text="review", label="stars")) == 1
    assert cs.load_corpus(str(path), text="review", label="stars").labels == ("positive",)
    assert cs.measure(pure, path, "sim", text="review", label="stars").provenance["seen"]["examples"] == 1


@pytest.mark.parametrize(
    ("texts", "columns", "message"),
    [
        (3, {}, "an int is no text and holds none; give texts as"),
        (b"a good film", {}, "a bytes is no text"),
        ([1, 2], {}, "texts:1: an int is no text"),
        (["fine", None], {}, "texts:2: a NoneType after a str; give texts of one form"),
        (["fine", ""], {}, "texts:2: the column 'text' has no text"),
        ([("a", "b", "c")], {}, r"texts:1: 3 parts where \(text, label\) has two"),
        (("a text", "positive"), {}, "may be two texts or a text and its label"),
        (FRAME, {}, "texts has no column 'text'; it has review, stars, more; choose with text=, label="),
        (FRAME, {"text": "revew"}, r"texts has no column 'revew' \(did you mean 'review'\?\)"),
        (TWO, {"text": "review"}, "a str has no columns"),
        (
            {"train": Dataset(ROWS), "test": Dataset(ROWS)},
            {},
            r"these are the splits test, train; give one, as in texts\['train'\]",
        ),
        ({"text": TWO, "label": [1]}, {}, "have 1, 2 rows"),
        ({"words": TWO}, {}, "no texts under 'text'"),
        (cs.load_corpus("bistro:test"), {"text": "review"}, "is read already; give its columns to load_corpus"),
    ],
)
def test_what_is_no_text_is_refused_in_a_line(texts: Any, columns: dict[str, str], message: str, pure: cs.LoadedModel) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        cs.measure(pure, texts, "sim", **columns)
    assert "\n" not in str(caught.value)


def test_a_model_is_taken_in_any_form(pure: cs.LoadedModel, model: Path) -> None:
    module = type(pure.module).from_pretrained(model)
    forms = [
        model, str(model), module, (module, pure.tokenizer), [module, pure.tokenizer], (model, pure.tokenizer),
        pipeline("text-classification", model=module, tokenizer=pure.tokenizer), cs.load_model(model),
    ]  # fmt: skip
    tables = [cs.measure(form, TWO, "sim")["sim"] for form in forms]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])
    assert cs.explain((module, pure.tokenizer), "the soup was good").predicted
    assert len(cs.compare((module, pure.tokenizer), module, "bistro:test", limit=8).scores) == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (tiny("bert"), "came without a tokenizer; pass load_model"),
        (torch.nn.Linear(2, 2), "Linear is a module, but not of transformers"),
        (3, "int is no model; give a folder"),
        ((tiny("bert"), "words"), r"is of type str; give \(model, tokenizer\)"),
    ],
)
def test_what_is_no_model_is_refused_in_a_line(model: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        cs.measure(model, TWO, "sim")


def test_options_are_keywords_and_measures_one_string_or_a_list(pure: cs.LoadedModel) -> None:
    found = cs.measure(pure, "bistro:test", "sim", limit=10, device="cpu")
    assert found.provenance["options"]["limit"] == 10
    assert list(found) == ["sim"]
    as_value = cs.measure(pure, "bistro:test", ["sim"], cs.Options(limit=10))
    pd.testing.assert_frame_equal(found["sim"], as_value["sim"])


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "texts first": (lambda m: cs.measure(TWO, m), "models come first, texts last: measure\\(model, texts\\)"),
    "texts and a folder": (lambda m: cs.measure(TWO, "runs/ft"), "models come first, texts last"),
    "three texts and a folder": (lambda m: cs.measure([*TWO, "soup"], "runs/ft"), "models come first, texts last"),
    "a corpus and a folder": (lambda m: cs.measure("bistro:test", "runs/ft"), "models come first, texts last"),
    "a frame and a model": (lambda m: cs.explain(FRAME, m), r"models come first, texts last: explain\(model, texts\)"),
    "a tokenizer": (
        lambda m: cs.measure(m.module, m.tokenizer, TWO),
        r"as \(model, tokenizer\): measure\(\(model,",
    ),
    "labels": (
        lambda m: cs.measure(m, TWO, ["positive", "negative"]),
        r"no measure; .* list\(zip\(texts, labels\)\)",
    ),
    "numbers of labels": (lambda m: cs.measure(m, TWO, [1, 0]), r"1 is no measure; labels are given with their texts"),
    "a number": (lambda m: cs.measure(m, TWO, 3), "3 is no name of a measure"),
    "one wrong measure of one text": (lambda m: cs.measure(m, ["a b"], ["smi"]), r"no measure 'smi' \(did you mean 'sim'\?\)"),
    "Options": (lambda m: cs.Options(limt=3), r"Options has no 'limt' \(did you mean 'limit'\?\)"),
    "Training": (lambda m: cs.Training(epoch=1), r"Training has no 'epoch' \(did you mean 'epochs'\?\)"),
    "Columns": (lambda m: cs.Columns(txt="a"), r"Columns has no 'txt' \(did you mean 'text'\?\)"),
    "options as a dictionary": (lambda m: cs.measure(m, TWO, options={"limt": 3}), r"did you mean 'limit'\?"),
    "options as a number": (lambda m: cs.measure(m, TWO, "sim", 3), "options of type int are no Options; give Options"),
    "train": (lambda m: cs.train("bistro", "runs/x", epoch=1), r"train has no option 'epoch' \(did you mean 'epochs'\?\)"),
    "map": (lambda m: cs.explain(m, "a b", map="gradient"), "no option 'map'; the name is maps"),
    "a map that was not made": (
        lambda m: cs.explain(m, "a b")["grad"],
        r"'grad' was not made \(did you mean 'gradient'\?\); made: attention, norms, rollout; ask for others",
    ),
    "a map of several": (lambda m: cs.explain(m, TWO)["attention"], r"explained\[0\]\['attention'\]"),
    "layer 0": (lambda m: cs.trace(m, "a b")["weights"][0], "no layer 0 of weights: layers count from 1; there are 1 to 3"),
    "plot": (lambda m: cs.measure(m, TWO, "sim").plot(), r"plot needs the name of a figure, as in plot\('sim'\)"),
    "label names": (lambda m: cs.Columns(label_names=3), r"label_names=3 is not such as \('bad', 'good'\)"),
    "label names in two forms": (lambda m: cs.Columns(label_names="0=bad,good"), "is not such as"),
    "an option": (lambda m: cs.measure(m, TWO, "sim:mask=reel"), r"no option 'mask=reel' \(did you mean 'real'\?\)"),
    "measures": (lambda m: cs.measure(m, TWO, "smi"), r"no measure 'smi' \(did you mean 'sim'\?\)"),
    "limt": (lambda m: cs.measure(m, TWO, limt=3), r"measure has no option 'limt' \(did you mean 'limit'\?\)"),
    "tokenizer": (lambda m: cs.measure(m, TWO, tokenizer=1), r"give the model as \(model, tokenizer\)"),
    "twice": (lambda m: cs.measure(m, TWO, "sim", cs.Options(limit=3), limit=4), "limit is given twice"),
    "bounds": (lambda m: cs.measure(m, TWO, "sim", limit=-1), "limit=-1 is not a whole number from 1"),
    "no texts": (lambda m: cs.measure(m, text="review"), "are of texts, and there are none"),
    "load_corpus": (lambda m: cs.load_corpus("x.csv", txet="review"), r"load_corpus has no option 'txet' \(did you mean 'text'"),
    "maps": (lambda m: cs.explain(m, "a b", "atention"), r"no map 'atention' \(did you mean 'attention'\?\)"),
    "explain": (lambda m: cs.explain(m, "a b", batchsize=3), r"no option 'batchsize' \(did you mean 'batch_size'\?\)"),
    "compare": (lambda m: cs.compare(m, m, "bistro:test", batchsize=3), r"did you mean 'batch_size'\?"),
    "compare without texts": (lambda m: cs.compare(m), "none are given"),
    "plausibility": (lambda m: cs.plausibility(m, "bistro:test", normalise="none"), r"did you mean 'normalize'\?"),
    "plausibility without texts": (lambda m: cs.plausibility(m), "none are given"),
    "faithfulness": (lambda m: cs.faithfulness(m, TWO, erasing_way=1), "faithfulness has no option 'erasing_way'"),
    "faithfulness of texts first": (lambda m: cs.faithfulness(TWO, m), "models come first, texts last"),
    "trace": (lambda m: cs.trace(m, TWO), "trace takes one text, and texts has more"),
    "trace kind": (lambda m: cs.trace(m, "a b", "nmpy"), r"did you mean 'numpy'\?"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_gets_one_line_that_says_what_to_type(call: str, pure: cs.LoadedModel) -> None:
    wrong, message = CALLS[call]
    with pytest.raises(ConoscopeError, match=message) as caught:
        wrong(pure)
    assert "\n" not in str(caught.value)


def test_a_result_is_a_mapping_of_tables(result: cs.Result) -> None:
    names = list(result)
    assert names == list(result.keys()) == list(result.tables)
    assert len(result) == len(names)
    assert "sim" in result
    assert "smi" not in result
    assert result.get("smi") is None
    assert result["sim"].equals(dict(result.items())["sim"])
    for error in (KeyError, MeasureError):
        with pytest.raises(error, match=r"'smi' was not measured \(did you mean 'sim'\?\); measured: "):
            result["smi"]
    assert result == result
    assert len({result, result}) == 1


def test_a_model_and_a_result_are_called_in_a_line(result: cs.Result, pure: cs.LoadedModel) -> None:
    assert repr(pure) == (
        "<LoadedModel SelfAttentionForSequenceClassification: 3 layers of 2 heads, labels negative, positive, float64 on cpu>"
    )
    every = cs.measure(pure, "bistro:test", limit=4)
    assert repr(every).endswith(f", … ({len(every)} tables)>")
    for shown in (result, every, pure, result.compare(result)):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 400


def test_a_result_says_what_is_worth_knowing_and_draws_it(result: cs.Result, tmp_path: Path) -> None:
    assert any("mean cosine" in sentence for sentence in result.findings)
    for name in ("sim", "class-cones", "class_cones", "effective_rank"):
        assert isinstance(result.plot(name), alt.TopLevelMixin), name
    with pytest.raises(MeasureError, match=r"no figure 'smi' \(did you mean 'sim'\?\)"):
        result.plot("smi")
    with pytest.raises(MeasureError, match="there is nothing to draw entropy from"):
        result.plot("entropy")
    assert result.report(tmp_path / "report.html").is_file()


def test_a_result_comes_back_from_its_folder_without_pickles(result: cs.Result, tmp_path: Path) -> None:
    saved = result.save(tmp_path / "out")
    assert not [path for path in saved.iterdir() if path.suffix in (".pkl", ".pickle", ".pt", ".bin")]
    again = cs.Result.load(saved)
    assert again.findings == result.findings
    assert list(again) == list(result)
    for name in result:
        pd.testing.assert_frame_equal(again[name], result[name])


def test_differences_are_numbers_with_intervals_that_say_how_they_were_made(result: cs.Result, of_other: cs.Result) -> None:
    differences = result.compare(of_other)
    sim = differences["sim"]
    assert list(sim)[-8:] == ["value", "other_value", "difference", "low", "high", "n", "other_n", "interval"]
    assert np.allclose(sim["difference"], sim["other_value"] - sim["value"])
    assert set(sim["interval"]) == {"paired, 28 groups of texts"}
    assert set(differences["class_cones"]["interval"]) <= {NOT_KEPT, NO_MEAN}
    assert bool(sim["difference"].between(sim["low"], sim["high"]).all())
    assert set(differences["effective_rank"]["interval"]) == {NO_MEAN}
    assert differences["effective_rank"]["low"].isna().all()
    assert "paired, 16 examples" in set(differences["gates"]["interval"])
    assert set(differences["self_sim"]["interval"].str.partition(",")[0]) == {"paired"}
    assert "class_cones.plane" in differences.left_out
    with pytest.raises(MeasureError, match="'smi' is not compared"):
        differences["smi"]


def test_paired_intervals_are_those_of_the_differences_of_each_example(result: cs.Result, of_other: cs.Result) -> None:
    from scipy.stats import ttest_rel

    from conoscope.measures.by_example import by_example

    one, two = (
        pd.DataFrame(by_example("class_cones.nearest", each.provenance["measures"], each.tally)).set_index("example")
        for each in (result, of_other)
    )
    keys = "layer == 3 and site == 'hidden' and representative == 'held_out'"
    rows = [frame.query(keys)["value"].sort_index() for frame in (one, two)]
    assert list(rows[0].index) == list(rows[1].index)
    expected = ttest_rel(*reversed(rows)).confidence_interval(0.95)
    found = result.compare(of_other)["class_cones.nearest"].query(f"{keys} and control == 'none'")
    assert found["interval"].item() == "paired, 40 examples"
    assert found[["low", "high"]].to_numpy().ravel() == pytest.approx([expected.low, expected.high])


def test_unpaired_intervals_are_welchs(result: cs.Result, pure: cs.LoadedModel) -> None:
    from scipy.stats import ttest_ind_from_stats

    elsewhere = cs.measure(pure, "bistro:train", ["sim", "gates"], limit=30)
    differences = result.compare(elsewhere)
    assert set(differences["gates"]["interval"]) <= {OTHER_TEXTS, NO_MEAN}
    row, ours = differences["sim"].iloc[5], (result["sim"].iloc[5], elsewhere["sim"].iloc[5])
    assert row["interval"] == OTHER_TEXTS
    assert [row["n"], row["other_n"]] == [ours[0]["n"], ours[1]["n"]]
    stats = [float(each[name]) for each in ours for name in ("value", "sd", "n")]
    p = ttest_ind_from_stats(*stats[:3], *stats[3:], equal_var=False).pvalue
    assert (p < 0.05) == (not row["low"] <= 0 <= row["high"])


def test_a_difference_is_the_other_minus_the_one_as_after_minus_before(result: cs.Result, of_other: cs.Result) -> None:
    back, forth = result.compare(of_other), of_other.compare(result)
    for name in ("sim", "gates"):
        one, other = back[name], forth[name]
        assert np.allclose(one["difference"], -other["difference"], equal_nan=True)
        assert np.allclose(one["low"], -other["high"], equal_nan=True)
    assert "Differences after minus before; before: " in repr(result.compare(of_other, names=("before", "after")))
    assert "Differences the other minus this; this: " in repr(back)


def test_vectors_of_texts_that_differ_are_told_and_those_that_are_the_same_are_not(pure: cs.LoadedModel, tmp_path: Path) -> None:
    measures = ["class_cones", "sim"]
    read, mean, first = (
        cs.measure(pure, "bistro:test", measures, limit=30, **pool) for pool in ({}, {"pool": "mean"}, {"pool": "first"})
    )
    bare = {
        **first.provenance["model"],
        "labels": [],
    }  # as of an encoder, whose first token was asked for
    asked = cs.Result(first.tally, {**first.provenance, "model": bare, "pool": {**first.provenance["pool"], "by": "--pool"}})
    told = "runs differ in the vector of a text: the mean of the token vectors, and what the classifier reads (<cls>)"
    differences = mean.compare(read, names=("before", "after"))
    assert told in repr(differences)
    assert any(told[5:] in sentence for sentence in differences.findings)
    assert bool(differences["class_cones"]["interval"].str.contains("runs differ in the vector of a text").all())
    assert not differences["sim"]["interval"].str.contains("runs differ").any()
    page = differences.report(tmp_path / "apart.html").read_text(encoding="utf-8")
    assert "runs differ in the vector of a text" in page
    same = asked.compare(read, names=("before", "after"))
    assert same.vectors is None
    assert "differ in" not in repr(same)
    assert not same["class_cones"]["interval"].str.contains("runs differ").any()
    page = same.report(tmp_path / "same.html").read_text(encoding="utf-8")
    assert "runs differ in" not in page
    assert "differs between runs" not in page


def test_the_largest_differences_are_told_with_how_many_were_compared(result: cs.Result, of_other: cs.Result) -> None:
    differences = result.compare(of_other, names=("before", "after"))
    head, *largest = differences.findings
    frames = [differences[name] for name in differences]
    frames = [frame[frame["control"] == "none"] if "control" in frame else frame for frame in frames]
    frames = [frame.dropna(subset=["difference", "low", "high"]) for frame in frames]
    units = [differences.rated(name).loc[frame.index, "units"] for name, frame in zip(differences, frames, strict=True)]
    wide = [frame["low"] < frame["high"] for frame in frames]
    pixels = len(frames[list(differences).index("gates.maps")])
    others = [(each, has) for name, each, has in zip(differences, units, wide, strict=True) if name != "gates.maps"]
    counted = sum(int(((each >= FEWEST) & has).sum()) for each, has in others)
    few = sum(int((each < FEWEST).sum()) for each, _ in others)
    alike = sum(int(((each >= FEWEST) & ~has).sum()) for each, has in others)
    assert head.startswith(f"{counted:,} numbers were compared")
    assert f"about {0.05 * counted:,.0f} would where nothing differs" in head
    assert min(few, alike) > 0
    assert head.endswith(
        f"Not counted: {pixels:,} in maps, {few} of fewer than 10 texts or other items, "
        f"{alike} that differ by the same, or not at all, in all texts."
    )
    assert 0 < len(largest) <= 5
    far = []
    for sentence in largest:
        told = re.search(
            r"^(\S+) \((.*)\) is (\S+) in before and (\S+) in after: after minus before is (\S+) "
            r"\((\S+) to (\S+); n \d+.*; (?:un)?paired.*\)\.$",
            sentence,
        )
        assert told is not None, sentence
        table, place, value, other, difference, low, high = told.groups()
        assert value != other
        assert float(low) * float(high) > 0
        assert float(difference) == pytest.approx(
            float(other) - float(value), abs=0.01 * max(abs(float(value)), abs(float(other)))
        )
        rows = differences._largest.of_tables
        far.append(rows.loc[(rows["table"] == table) & (rows["place"] == place), "size"].item())
    assert far == sorted(far, reverse=True)
    assert result.compare(result).findings[0].split("; ")[1].startswith("0 of their 95 % intervals")
    assert len(result.compare(result).findings) == 1


def test_a_result_does_not_differ_from_itself_and_what_has_nothing_in_common_is_refused(
    result: cs.Result, pure: cs.LoadedModel, tmp_path: Path
) -> None:
    same = result.compare(cs.Result.load(result.save(tmp_path / "out")), names=("one", "two"))
    for name in same:
        assert same[name]["difference"].fillna(0).eq(0).all(), name
    assert isinstance(same.plot("sim"), alt.TopLevelMixin)
    assert same.report(tmp_path / "both.html").is_file()
    with pytest.raises(MeasureError, match="no table is in both results"):
        result.compare(cs.measure(pure, TWO, "attention_entropy"))
    with pytest.raises(MeasureError, match="a result is compared with a result, not with int"):
        result.compare(3)  # type: ignore[arg-type]
    with pytest.raises(OutputError, match="no results can be read from nowhere: it holds no"):
        result.compare("nowhere")
    with pytest.raises(MeasureError, match="are not two names"):
        result.compare(result, names="ab")


def test_a_text_is_explained_in_words_scores_and_probabilities(pure: cs.LoadedModel) -> None:
    explained = cs.explain(pure, "the soup was not good")
    assert explained.words == ("the", "soup", "was", "not", "good")
    assert list(explained.maps) == ["attention", "norms", "rollout"]
    assert explained["attention"].shape == (5,)
    assert sum(explained.probabilities.values()) == pytest.approx(1)
    assert max(explained.probabilities, key=explained.probabilities.__getitem__) == explained.predicted
    assert list(explained.table) == ["word", "attention", "norms", "rollout"]
    assert f"predicted: {explained.predicted} (negative 0." in repr(explained)
    with pytest.raises(MeasureError, match=r"the map 'atention' was not made \(did you mean 'attention'\?\)"):
        explained["atention"]


def test_several_texts_have_several_explanations_each_the_same_as_alone(pure: cs.LoadedModel) -> None:
    found = cs.explain(pure, TWO, "rollout")
    assert isinstance(found, Explanations)
    assert len(found) == 2
    for explained, text in zip(found, TWO, strict=True):
        alone = cs.explain(pure, text, "rollout")
        assert explained["rollout"] == pytest.approx(alone["rollout"])
        assert explained.probabilities == pytest.approx(alone.probabilities)
    assert len([*found]) == 2  # again
    assert [found[0].words, found[-1].words] == [each.words for each in found]
    assert [each.words for each in found[1:]] == [found[1].words]
    for place in (2, -3):
        with pytest.raises(IndexError, match="there are 2, counted from 0"):
            found[place]
    assert len([*cs.explain(pure, "bistro:test", limit=3)]) == 3
    assert len([*cs.explain(pure, FRAME, "random", text="review")]) == 2


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.styles: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]


def test_words_are_coloured_by_their_scores_and_hostile_ones_are_text(pure: cs.LoadedModel, tmp_path: Path) -> None:
    explained = cs.explain(pure, f"the soup {HOSTILE} was good", "attention")
    shown = Tags(explained._repr_html_())
    assert "script" not in shown.tags
    assert "\u202e" not in explained._repr_html_()
    strongest = int(np.argmax(explained["attention"]))
    assert "0.750)" in shown.styles[strongest]
    page = explained.save(tmp_path / "words.html").read_text(encoding="utf-8")
    assert explained.html() in page
    assert {"html", "body", "span"} <= set(Tags(page).tags)
    assert "script" not in Tags(page).tags
    assert "\u202e" not in page
    assert "script" not in Tags(cs.explain(pure, [HOSTILE, "b"], "attention")._repr_html_()).tags


def test_differences_of_hostile_names_are_text(result: cs.Result) -> None:
    named = cs.Result(result.tally, {**result.provenance, "model": {**result.provenance["model"], "name": HOSTILE}})
    page = named.compare(named)._repr_html_()
    assert "script" not in Tags(page).tags
    assert "\u202e" not in page
    assert {"table", "td"} <= set(Tags(page).tags)


def test_a_trace_has_what_one_text_left_in_every_layer(pure: cs.LoadedModel) -> None:
    traced = cs.trace(pure, "the soup was not good")
    assert traced.tokens == ("<cls>", "the", "soup", "was", "not", "good")
    assert traced.words == (-1, 0, 1, 2, 3, 4)
    assert isinstance(traced["weights"][2], np.ndarray)
    assert traced.shapes["weights"] == (2, 6, 6)
    assert traced.shapes["hidden"] == (6, 24)
    assert traced.shapes["query"] == (2, 6, 12)
    assert list(traced["hidden"]) == [0, 1, 2, 3]
    assert list(traced["weights"]) == [1, 2, 3]
    assert traced["weights"][1].sum(-1) == pytest.approx(np.ones((2, 6)))
    for layer in (1, 2, 3):
        mixed = traced["weights"][layer] @ traced["value"][layer]
        assert mixed == pytest.approx(traced["context"][layer])
    assert traced.probabilities == pytest.approx(cs.explain(pure, "the soup was not good").probabilities)
    assert set(traced) <= {*SITES, "weights"}
    assert all(name in repr(traced) for name in traced)


def test_a_trace_is_what_the_model_itself_computes(minilm: cs.LoadedModel) -> None:
    from conoscope.capture.implementation import attention_of

    text = "the soup was not good"
    traced = cs.trace(minilm, text, kind="torch")
    with attention_of(minilm.module, "eager"), torch.no_grad():
        given = minilm.tokenizer(text, return_tensors="pt")
        plain = minilm.module(**given, output_hidden_states=True, output_attentions=True)
    for layer, weights in enumerate(plain.attentions, 1):
        torch.testing.assert_close(traced["weights"][layer], weights[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(traced["hidden"][layer], plain.hidden_states[layer][0], rtol=1e-4, atol=1e-5)
    assert traced.logits is None
    assert not traced.probabilities


def test_a_trace_names_what_is_not_there(pure: cs.LoadedModel) -> None:
    traced = cs.trace(pure, ["soup"])
    with pytest.raises(MeasureError, match=r"no 'weight' in this trace \(did you mean 'weights'\?\)"):
        traced["weight"]
    with pytest.raises(MeasureError, match="no 'forward' in this trace; the model has none"):
        traced["forward"]
    with pytest.raises(MeasureError, match="no layer 9; give a number from 0"):
        traced.layer(9)
    assert "weights" in traced.layer(2)


def test_all_take_models_first_and_texts_last(pure: cs.LoadedModel, other: cs.LoadedModel, model: Path) -> None:
    few = cs.load_corpus("bistro:test").first(6)
    assert list(cs.compare(pure, other, few).scores["n"]) == [6, 6]
    assert list(cs.compare([pure, other], few).scores["n"]) == [6, 6]
    assert list(cs.compare([pure], corpus=few).scores["n"]) == [6]
    assert "attention" in set(cs.plausibility(pure, few, "attention", resamples=5)["plausibility"]["map"])
    assert "attention" in set(cs.plausibility(model, "bistro:test", "attention", limit=3, resamples=5)["plausibility"]["map"])
    assert "attention" in set(cs.faithfulness(pure, few, "attention", resamples=5)["faithfulness"]["map"])
    judged = cs.plausibility(few, resamples=5)
    assert set(judged["plausibility"]["map"]) == {"random"}
    assert repr(judged) == str(judged)


def test_the_old_orders_work_for_one_version_and_warn(pure: cs.LoadedModel, model: Path) -> None:
    few, judging = cs.load_corpus("bistro:test").first(6), Judging(resamples=5)
    expected = cs.plausibility(pure, few, "attention", judging=judging)["plausibility"]
    with pytest.warns(FutureWarning, match=r"is now plausibility\(model, corpus\)"):
        found = cs.plausibility(few, pure, ["attention"], judging=judging)["plausibility"]
    pd.testing.assert_frame_equal(found, expected)
    with pytest.warns(FutureWarning, match=r"is now plausibility\(model, corpus\)"):
        cs.plausibility("bistro:test", str(model), ["attention"], limit=3, resamples=5)
    with pytest.warns(FutureWarning, match="device and batch_size are keywords now"):
        assert len(cs.compare([pure], few, "cpu", 4).scores) == 1


def test_a_warning_of_an_old_order_is_seen() -> None:
    code = (
        "import conoscope as cs\n"
        "try:\n    cs.plausibility(cs.load_corpus('bistro:test'), 'no/such/model')\n"
        "except cs.ConoscopeError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert "FutureWarning: plausibility(corpus, model) is now plausibility(model, corpus)" in done.stderr
    assert "no folder 'no/such/model'" in done.stdout
