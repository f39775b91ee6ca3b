"""Studies: each runs in its quick form, and one that was stopped goes on; what is told follows from the record alone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from commands import refusal
from conoscope.cli import main
from conoscope.common.errors import MeasureError
from conoscope.corpora import Corpus, Example
from conoscope.reporting.gathering import gather
from conoscope.studies import STUDIES
from conoscope.studies.base import TAGS, Claim, Condition, Published, Row, Study
from conoscope.studies.contrasts import difference
from conoscope.studies.made import Made, Place, balanced, by_layer
from conoscope.studies.pages import write_page
from conoscope.studies.records import read_record
from conoscope.studies.reproducing import Reproducing, _refuse_twice_the_same, reproduce
from conoscope.studies.running import jobs_of, kept
from conoscope.studies.telling import record_text
from conoscope.training.settings import Training

ALONE = Reproducing(jobs=1)
HERE = Place()


class Reader:
    """Reads the depth and the seed of a run, counts how often it was asked, and may be stopped or break."""

    def __init__(self, stop_at: int | None = None, break_at: tuple[int, ...] = ()) -> None:
        self.asked, self.stop_at, self.break_at = 0, stop_at, break_at

    def __call__(self, made: Made) -> Iterator[Row]:
        self.asked += 1
        if self.asked == self.stop_at:
            raise KeyboardInterrupt
        if made.seed in self.break_at:
            raise ValueError("no such\nthing")
        yield {"quantity": "depth", "value": made.condition.keys["layers"] + made.seed / 100}


def study(read: Reader | None = None) -> Study:
    conditions = tuple(Condition({"corpus": "bistro", "layers": layers}, "bistro") for layers in (1, 2))

    def deeper(rows: pd.DataFrame) -> pd.DataFrame:
        return difference(rows[rows["layers"] == 2], rows[rows["layers"] == 1], ("corpus",))

    return Study(
        "counted",
        "Depth by depth",
        "nowhere",
        conditions,
        read or Reader(),
        (Published({"layers": 1, "quantity": "depth"}, 1.02, "N"), Published({"layers": 9, "quantity": "depth"}, 9.0, "N")),
        (Claim("deeper", "Two is more than one.", deeper),),
        ("It differs.",),
        "It means much.",
    )


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Reader:
    reader = Reader()
    monkeypatch.setitem(STUDIES, "counted", study(reader))
    return reader


@pytest.mark.parametrize("name", STUDIES)
def test_the_quick_form_of_every_study_runs_without_data_and_fits_into_a_report(name: str, tmp_path: Path) -> None:
    record = reproduce(name, tmp_path, Reproducing(quick=True, jobs=1, device="cpu", data_dir=str(tmp_path / "none")))
    assert record["failed"] == []
    assert len(record["runs"]) == 2 * sum(condition.quick for condition in STUDIES[name].conditions) <= 12
    assert record["means"]
    assert [claim["name"] for claim in record["claims"]] == [claim.name for claim in STUDIES[name].claims]
    # Elsewhere bistro has not what a claim is of: rationales, or as many classes.
    assert all(claim["cases"] for claim in record["claims"]) or not name.startswith("fosse-table")
    assert read_record(tmp_path / "record.json") == record
    assert "study.means" in set(gather([tmp_path / "tables"])[0].tables)
    assert "only tests the code" in record_text(record)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_says_what_it_needs_to(name: str) -> None:
    one = STUDIES[name]
    assert one.name == name
    assert one.differs
    assert one.claims
    assert one.seeds >= 3
    assert {figure.tag for figure in one.published} <= set(TAGS)
    assert len({json.dumps(dict(condition.keys)) for condition in one.conditions}) == len(one.conditions)
    keys = [dict(condition.keys) for condition in one.conditions]
    for figure in one.published:
        assert any(all(figure.keys.get(key, value) == value for key, value in of.items()) for of in keys), figure


def test_finished_runs_are_not_made_again(tmp_path: Path, counted: Reader) -> None:
    first = reproduce("counted", tmp_path, ALONE)
    assert counted.asked == 10
    assert reproduce("counted", tmp_path, ALONE) == first
    assert counted.asked == 10
    assert len(reproduce("counted", tmp_path, replace(ALONE, seeds=6))["runs"]) == 12
    assert counted.asked == 12


def test_more_seeds_than_parts_of_the_texts_are_refused() -> None:
    few = [replace(condition, training=None, model="m", parts=5) for condition in STUDIES["kobayashi-norms"].conditions]
    with pytest.raises(
        MeasureError, match="6 seeds of a model that is not trained would read the same texts again; give --seeds 5"
    ):
        _refuse_twice_the_same(few, 6)
    _refuse_twice_the_same(few, 5)


def test_a_study_that_was_stopped_goes_on_with_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, "counted", study(Reader(stop_at=4)))
    assert main(["reproduce", "counted", "--jobs", "1", "-o", str(tmp_path)]) == 130
    assert len(list((tmp_path / "runs").glob("*.json"))) == 3
    again = Reader()
    monkeypatch.setitem(STUDIES, "counted", study(again))
    assert len(reproduce("counted", tmp_path, ALONE)["runs"]) == 10
    assert again.asked == 7


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"rows": 3, "seed": 0}', '{"rows": [], "seed": 7}'])
def test_a_run_that_is_not_whole_is_made_again(text: str, tmp_path: Path, counted: Reader) -> None:
    whole = reproduce("counted", tmp_path, ALONE)
    job = jobs_of(STUDIES["counted"], STUDIES["counted"].conditions, 5, HERE, tmp_path)[0]
    job.path.write_text(text, encoding="utf-8")
    assert kept(job) is None
    assert reproduce("counted", tmp_path, ALONE)["means"] == whole["means"]
    assert counted.asked == 11


def test_a_run_that_breaks_is_told_in_one_line_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(STUDIES, "counted", study(Reader(break_at=(1,))))
    assert main(["reproduce", "counted", "--jobs", "1", "-o", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "conoscope: counted, corpus bistro, layers 1, seed 1: ValueError: no such thing\n" in captured.err
    assert "8 runs; " in captured.out
    monkeypatch.setitem(STUDIES, "counted", study(Reader(break_at=(0, 1, 2, 3, 4))))
    with pytest.raises(
        MeasureError, match=r"no run of 10 came to an end; the first: counted, .* seed 0: ValueError: no such thing"
    ):
        reproduce("counted", tmp_path / "other", ALONE)


def test_runs_are_told_apart_by_all_that_their_numbers_depend_on(tmp_path: Path) -> None:
    one, changed = study(), Condition({"corpus": "bistro", "layers": 1}, "bistro", Training(layers=1))
    paths = [
        job.path
        for condition, place in ((one.conditions[0], HERE), (changed, HERE), (one.conditions[0], Place(limit=9)))
        for job in jobs_of(one, [condition], 2, place, tmp_path)
    ]
    assert len(set(paths)) == 6
    elsewhere = jobs_of(one, one.conditions[:1], 2, Place("data", "cuda", None, "models"), tmp_path)
    assert [job.path for job in elsewhere] == paths[:2]


def test_a_study_in_two_processes_says_what_it_says_in_one_and_keeps_its_models_where_asked(tmp_path: Path) -> None:
    options = Reproducing(quick=True, device="cpu", seeds=1, jobs=1, data_dir=str(tmp_path / "none"))
    one = reproduce("fosse-table-1", tmp_path / "one", options)
    two = reproduce("fosse-table-1", tmp_path / "two", replace(options, jobs=2, keep_models=True))
    assert two["failed"] == []
    assert one["means"] == two["means"]
    assert not (tmp_path / "one" / "models").exists()
    kept_models = sorted((tmp_path / "two" / "models").iterdir())
    assert [path.name for path in kept_models] == [f"hatexplain-{layers}-seed-0" for layers in (1, 3, 5)]
    assert all((path / "training.json").is_file() for path in kept_models)


def test_a_balanced_subset_has_the_first_texts_of_each_class() -> None:
    texts = Corpus.of([Example(f"text {n}", "abc"[n % 3] if n < 9 else "a") for n in range(20)])
    found = balanced(texts, 7)
    assert [example.text for example in found] == [f"text {n}" for n in range(6)]
    assert len(found) == 6


def test_seeds_of_a_model_that_is_taken_as_it_is_read_parts_of_their_own() -> None:
    condition = Condition({"model": "x"}, "bistro", model="x", parts=4)
    parts = [{e.id for e in Made(condition, seed, Place(limit=20)).texts} for seed in range(4)]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 80


def test_values_by_layer_are_those_of_whole_vectors() -> None:
    rows = [("key", 1, None, 0.5), ("key", 1, 1, 0.9), ("key", 2, None, 0.6), ("value", 1, None, 0.1)]
    frame = pd.DataFrame(rows, columns=["site", "layer", "head", "value"])
    assert by_layer(frame, "key") == {1: 0.5, 2: 0.6}


def test_the_text_the_record_and_the_page_tell_the_same(
    tmp_path: Path, counted: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    record = reproduce("counted", tmp_path, ALONE)
    assert [(row["layers"], row["published"], row["ours"], row["holds"]) for row in record["published"]] == [
        (1, 1.02, 1.02, "yes")
    ]
    (claim,) = record["claims"]
    assert (claim["answer"], claim["cases"][0]["mean"], claim["cases"][0]["seeds"]) == ("holds", pytest.approx(1.0), 5)
    assert record["command"] == "conoscope reproduce counted --seeds 5"
    assert main(["reproduce", "counted", "--record", str(tmp_path / "record.json"), "--page", str(tmp_path / "p" / "c.md")]) == 0
    assert record_text(record) in capsys.readouterr().out
    assert counted.asked == 10
    page = (tmp_path / "p" / "c.md").read_text(encoding="utf-8")
    for said in (
        "It means much.",
        "It differs.",
        "| deeper | Two is more than one. | holds |",
        "1.020 [N] | 1.020 ± 0.016 | yes",
    ):
        assert said in page
    drawn = {path.name for path in (tmp_path / "p").glob("*.svg")}
    assert drawn == {"c-claims.svg", "c-published-and-ours.svg"}
    assert all(f"]({name})" in page for name in drawn)
    assert write_page(record, tmp_path / "again" / "c.md").read_text(encoding="utf-8") == page


def test_bad_input_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], counted: Reader) -> None:
    assert "no study 'nothing'; known studies: " in refusal(capsys, "reproduce", "nothing", "-o", tmp_path / "x")
    missing = refusal(capsys, "reproduce", "fosse-table-1", "-o", tmp_path / "x", "--data-dir", tmp_path / "none")
    assert "no data of hatexplain" in missing
    assert "conoscope fetch hatexplain" in missing
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("[]", encoding="utf-8")
    assert "cannot make the folder" in refusal(capsys, "reproduce", "counted", "-o", tmp_path / "file")
    for path in (tmp_path / "file", tmp_path / "none", tmp_path):
        assert "no record can be read from" in refusal(capsys, "reproduce", "counted", "--record", path)


def test_word_vectors_that_are_not_there_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str], counted: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        wanting = replace(study(), conditions=(Condition({"layers": 1}, "bistro", Training(vectors="glove")),))
        patch.setitem(STUDIES, "counted", wanting)
        said = refusal(capsys, "reproduce", "counted", "-o", tmp_path / "x", "--data-dir", tmp_path)
    assert "no word vectors: looked for" in said
    assert "conoscope fetch glove" in said


def test_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "studies"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in STUDIES)
