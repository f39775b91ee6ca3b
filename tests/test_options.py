"""Options: given once, and obeyed or refused, never ignored in silence."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from commands import refusal
from conoscope.capture.frequencies import load_ranks
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.cli import main
from conoscope.common.errors import ConoscopeError, CorpusError, MeasureError, ModelError
from conoscope.common.vocabulary import KINDS
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.explaining import Explaining, Judging, explain, faithfulness, plausibility
from conoscope.explaining.base import METHODS
from conoscope.explaining.base import request as method_request
from conoscope.measures import CATALOGUE, request
from conoscope.measuring.gates import thresholds
from conoscope.measuring.pipeline import Options, _run_options, measure
from conoscope.reporting.gathering import gather
from conoscope.results.store import stem_of
from conoscope.training.comparison import compare

TEXTS = [Example("the soup was cold", "negative"), Example("we loved it", "positive")]


@pytest.mark.parametrize("name", [name for name, known in CATALOGUE.items() if known.choices])
def test_a_measures_option_that_is_given_twice_is_refused(name: str) -> None:
    for key, values in CATALOGUE[name].choices.items():
        value = {"N": "3", "LAYER.HEAD+...": "1.1"}.get(values[0], values[0])
        assert request(f"{name}:{key}={value}").options == {key: value}
        for other in values:
            other = {"N": "4", "LAYER.HEAD+...": "1.2"}.get(other, other)
            with pytest.raises(MeasureError, match=f"{name} is given the option '{key}' twice; give it once"):
                request(f"{name}:{key}={value},{key}={other}")


@pytest.mark.parametrize("name", [name for name, known in METHODS.items() if known.choices])
def test_a_maps_option_that_is_given_twice_is_refused(name: str) -> None:
    for key, values in METHODS[name].choices.items():
        value = {"N": "3"}.get(values[0], values[0])
        with pytest.raises(MeasureError, match=f"the map {name} is given the option '{key}' twice; give it once"):
            method_request(f"{name}:{key}={value},{key}={value}")


def test_a_name_that_is_given_twice_is_refused(
    pure: LoadedModel, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CorpusError, match="yelp_hat is given the option 'map' twice"):
        load_corpus("yelp_hat:test:map=any,map=all")
    with pytest.raises(MeasureError, match=r"the threshold 'open\.entropy' is given twice"):
        thresholds(["open.entropy=0.7", "open.entropy=0.8"])
    with pytest.raises(MeasureError, match="the measure 'sim' is given twice"):
        measure(pure, TEXTS, ["sim", "attention_entropy", "sim"])
    with pytest.raises(MeasureError, match="the map 'attention' is given twice"):
        explain(pure, TEXTS, ["attention", "attention"])
    with pytest.raises(MeasureError, match="the map 'attention' is given twice"):
        faithfulness(pure, TEXTS, ["attention", "attention"])
    (tmp_path / "ranks.csv").write_text("token,rank\nsoup,1\nthe,2\nsoup,3\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"ranks\.csv:4: the token \d+ is listed already"):
        load_ranks(tmp_path / "ranks.csv", pure.tokenizer, len(pure.tokenizer))
    kinds = ["measure", str(model), "bistro:test", "--kind", "a=no", "--kind", "a=not"]
    for command in (kinds, ["train", "bistro", "-o", "x", "--seeds", "1,2,1"]):
        with pytest.raises(SystemExit):
            main(command)
        assert "twice" in capsys.readouterr().err


def test_a_name_for_two_runs_is_refused_and_one_for_two_parts_of_a_run_is_not(pure: LoadedModel, tmp_path: Path) -> None:
    one, other = measure(pure, TEXTS, ["sim"]), measure(pure, TEXTS[:1], ["sim"])
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    measure(pure, TEXTS, ["heads"], out=tmp_path / "more")
    with pytest.raises(ConoscopeError, match="the name 'before' is given to more than one run; give each its own"):
        gather([f"before={tmp_path / 'one'}", f"before={tmp_path / 'other'}", f"after={tmp_path / 'other'}"])
    assert [run.name for run in gather([f"before={tmp_path / 'one'}", f"before={tmp_path / 'more'}"])] == ["before", "before"]


def test_thresholds_are_numbers() -> None:
    for text in ("nan", "inf", "-1", "", "x"):
        with pytest.raises(MeasureError, match="has no number from 0"):
            thresholds([f"open.entropy={text}"])


def test_a_loaded_model_is_measured_as_it_is_or_the_option_is_refused(model: Path) -> None:
    loaded = load_model(model)
    assert measure(loaded, TEXTS, ["sim"]).provenance["options"]["dtype"] == "float32"
    assert measure(load_model(model, dtype="float64"), TEXTS, ["sim"]).provenance["options"]["dtype"] == "float64"
    assert measure(model, TEXTS, ["sim"], Options(dtype="float64")).provenance["options"]["dtype"] == "float64"
    assert measure(model, TEXTS, ["sim"]).provenance["options"]["dtype"] == "float32"
    for refused in (
        lambda: measure(loaded, TEXTS, ["sim"], Options(dtype="float64")),
        lambda: explain(loaded, TEXTS, ["attention"], Explaining(dtype="float64")),
        lambda: faithfulness(loaded, TEXTS, ["attention"], options=Explaining(dtype="float64")),
        lambda: plausibility(loaded, TEXTS, ["attention"], options=Explaining(dtype="float64")),
    ):
        with pytest.raises(ModelError, match="is loaded in float32 and float64 is asked for"):
            refused()
    for refused in (
        lambda: measure(loaded, TEXTS, ["sim"], Options(device="abacus")),
        lambda: explain(loaded, TEXTS, ["attention"], Explaining(device="abacus")),
        lambda: compare([loaded], TEXTS, device="abacus"),
    ):
        with pytest.raises(ModelError, match="no device 'abacus'"):
            refused()


def test_judging_says_in_which_precision_the_maps_were_made(pure: LoadedModel) -> None:
    found = faithfulness(pure, TEXTS, ["attention"])
    assert found.provenance["options"]["dtype"] == "float64"


def test_what_maps_are_made_with_is_refused_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"text": "fine soup", "scores": [1, 0]}\n', encoding="utf-8")
    texts = [Example("fine soup", rationale=(True, False))]
    judged = plausibility(texts, scores=[tmp_path / "s.jsonl"], judging=Judging(resamples=2))
    assert "s" in set(judged["plausibility"]["map"])
    for given in ({"dtype": "float64"}, {"device": "cpu"}, {"max_length": 9}, {"word_score": "max"}, {"pool": "mean"}):
        options = Explaining(**given)  # type: ignore[arg-type]
        with pytest.raises(MeasureError, match="is for maps of a model, and no model is given"):
            plausibility(texts, scores=[tmp_path / "s.jsonl"], options=options)


def test_kinds_and_frequencies_that_no_measure_reads_are_refused(pure: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "ranks.csv").write_text("token,rank\nsoup,1\n", encoding="utf-8")
    with pytest.raises(MeasureError, match="reads kinds; leave it out, or ask for heads, mixing, norms"):
        measure(pure, TEXTS, ["sim"], Options(kinds={"a": ["soup"]}))
    with pytest.raises(MeasureError, match="no measure that is asked for reads frequencies; leave it out, or ask for frequency"):
        measure(pure, TEXTS, ["sim", "norms"], Options(frequencies=tmp_path / "ranks.csv"))
    for given in ({"limit": 3}, {"max_length": 9}, {"pool": "mean"}):
        with pytest.raises(CorpusError, match=f"{next(iter(given))} is of texts, and there are none"):
            measure(pure, options=Options(**given))  # type: ignore[arg-type]


def test_measures_that_read_kinds_say_so(pure: LoadedModel) -> None:
    texts = Corpus.of([*load_corpus("bistro:test").first(12)], "texts")
    names = [name for name, known in CATALOGUE.items() if not known.on_request]
    plain, own = (measure(pure, texts, names, Options(kinds=kinds)).tables for kinds in ({}, {"mine": ["the", "was", "soup"]}))
    changed = set()
    for name, table in own.items():
        if name not in plain or not table.equals(plain[name]):
            changed.add(name.partition(".")[0].partition(":")[0])
    assert changed == {name for name in names if "kinds" in _run_options(name)}
    assert "mine" not in KINDS


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["measure", "runs/pure"], ["--limit", "3"]),
        (["measure", "runs/pure"], ["--label", "mood"]),
        (["measure", "runs/pure"], ["--text", "review"]),
        (["explain", "runs/pure", "--words", "fine"], ["--rationale", "why"]),
        (["explain", "runs/pure", "--words", "fine"], ["--limit", "3"]),
        (["train", "bistro", "-o", "x"], ["--penalty-rows", "all"]),
        (["train", "bistro", "-o", "x"], ["--penalty-layers", "2"]),
        (["train", "bistro", "-o", "x", "--entropy-penalty", "0.1"], ["--penalty-input", "raw"]),
        (["train", "bistro", "-o", "x", "--seeds", "0..2"], ["--seed", "3"]),
        (["figure", "sim", "out", "-o", "x.svg"], ["--count", "9"]),
        (["figure", "sim", "out", "-o", "x.svg"], ["--width", "9"]),
        (["reproduce", "fosse-table-1", "--record", "x"], ["--quick"]),
        (["reproduce", "fosse-table-1", "--record", "x"], ["--seeds", "3"]),
        (["reproduce", "fosse-table-1", "--record", "x"], ["-o", "out"]),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    command: list[str], option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"-o": "--out"}.get(option[0], option[0])
    assert f"{named} does nothing" in refusal(capsys, *command, *option)


def test_folders_that_a_figure_would_not_look_at_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "takes no folders" in refusal(capsys, "figure", "positions", "out", "-o", tmp_path / "x.svg")
    assert main(["figure", "positions", "--count", "5", "-o", str(tmp_path / "x.json")]) == 0


def test_tables_of_different_measures_have_different_files() -> None:
    names = []
    for name, known in CATALOGUE.items():
        asked_for = [request(name)]
        for key, values in known.choices.items():
            asked_for += [request(f"{name}:{key}={value}") for value in ("7", "1.1", *values) if takes(values, value)]
        names += [table for wanted in asked_for for table, _, _ in wanted.tables()]
    assert len({stem_of(name) for name in names}) == len(set(names))


def takes(values: tuple[str, ...], value: str) -> bool:
    from conoscope.common.options import takes as known

    return known(values, value)


def test_tables_are_the_same_with_and_without_explicit_defaults(pure: LoadedModel) -> None:
    plain, said = measure(pure, TEXTS, ["sim"]), measure(pure, TEXTS, ["sim"], replace(Options(), dtype="float64", device="cpu"))
    pd.testing.assert_frame_equal(plain["sim"], said["sim"])
