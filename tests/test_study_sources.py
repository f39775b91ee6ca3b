"""What runs read and how old they are: pooled data, gates of earlier records, records of other versions."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from conoscope.cli import main
from conoscope.common.errors import MeasureError
from conoscope.corpora import load_corpus
from conoscope.studies import STUDIES
from conoscope.studies.base import Claim, Condition, Published, Row, Study
from conoscope.studies.checkpoints import with_checkpoint
from conoscope.studies.earlier import EARLIER, is_earlier
from conoscope.studies.gating import CLASSES, balanced_majority
from conoscope.studies.made import Made, Place, setting_of
from conoscope.studies.pages import write_page
from conoscope.studies.records import read_record, recorded
from conoscope.studies.rejudging import Record, judge_again
from conoscope.studies.reproducing import Reproducing, _how, reproduce, selected
from conoscope.studies.telling import record_text

ONE = Reproducing(jobs=1)
HOW = {"quick": False, "limit": None, "model": None, "vectors": None, "wanted": 5}
TEXTS = {"train": "a", "validation": "b", "test": "c"}


def read(made: Made) -> Iterator[Row]:
    yield {"quantity": "depth", "value": 1.0 + made.seed / 100}


def deep(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["quantity"] == "depth"].assign(case="deep")


def study(*conditions: Condition) -> Study:
    published = (Published({"quantity": "depth", "penalty": 0.0}, 1.02, "N"),)
    claims = (Claim("deep", "It is.", deep),)
    return Study("tried", "Tried", "nowhere", conditions, read, published, claims, ("It differs.",), "It means much.")


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Study:
    one = study(*(Condition({"penalty": penalty}, "bistro") for penalty in (0.0, 1e-4)))
    monkeypatch.setitem(STUDIES, "tried", one)
    return one


def elsewhere(record: Record, path: Path, **source: str) -> Path:
    """The record with other digests of what its runs read."""
    changed = [{**known, **source} for known in record["sources"]]
    path.write_text(json.dumps({**record, "sources": changed}), encoding="utf-8")
    return path


def test_runs_on_other_texts_are_refused(tmp_path: Path, tried: Study, capsys: pytest.CaptureFixture[str]) -> None:
    first = reproduce("tried", tmp_path / "one", replace(ONE, seeds=3))
    same = elsewhere(first, tmp_path / "same.json")
    assert len(reproduce("tried", tmp_path / "two", replace(ONE, records=[same]))["runs"]) == 10
    other = elsewhere(first, tmp_path / "other.json", test="deadbeef")
    assert main(["reproduce", "tried", "--jobs", "1", "--from", str(other), "-o", str(tmp_path / "three")]) == 2
    taken, said = capsys.readouterr().err.splitlines()
    assert taken.startswith("6 of 6 runs taken from ")
    assert "runs of penalty 0 are of different test texts: deadbeef in seeds 0 to 2; " in said
    assert f"{first['sources'][0]['test']} in seeds 3 to 4" in said
    assert "give -o another folder, and --from records of the same texts only" in said


def test_records_of_different_texts_are_refused_before_anything_runs(tmp_path: Path, tried: Study) -> None:
    first = reproduce("tried", tmp_path / "one", replace(ONE, seeds=1))
    second = reproduce("tried", tmp_path / "two", replace(ONE, seeds=2))
    records = [elsewhere(first, tmp_path / "a.json"), elsewhere(second, tmp_path / "b.json", test="deadbeef")]
    with pytest.raises(MeasureError, match=r"runs of penalty 0 are of different test texts: .* in seed 0; deadbeef in seed 1;"):
        reproduce("tried", tmp_path / "three", replace(ONE, records=records))
    assert len(list((tmp_path / "three" / "runs").glob("*.json"))) == 4


def test_parts_of_the_same_texts_are_the_same_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parted = study(Condition({"penalty": 0.0}, "bistro", parts=4))
    monkeypatch.setitem(STUDIES, "tried", parted)
    made = [Made(parted.conditions[0], seed, Place()).texts for seed in range(2)]
    assert {text.id for text in made[0]}.isdisjoint(text.id for text in made[1])
    record = reproduce("tried", tmp_path / "one", replace(ONE, seeds=2))
    assert len(record["sources"]) == 1
    assert record["mixed"] == []
    other = elsewhere(record, tmp_path / "other.json", test="deadbeef")
    with pytest.raises(MeasureError, match="different test texts: deadbeef in seeds 0 to 1;"):
        reproduce("tried", tmp_path / "two", replace(ONE, seeds=4, records=[other]))


def run_of(seed: int, **more: Any) -> dict[str, Any]:
    machine = {"device": "cpu", "versions": {"torch": "1"}}
    rows = [{"quantity": "depth", "value": 1.0 + seed / 10}]
    return {"keys": {"penalty": 0}, "seed": seed, "run": f"{seed:x}", "rows": rows, "examples": 40, "began": 0.0, "ended": 1.0,
            "setting": {"a": 1}, "source": TEXTS, "machine": machine, **more}  # fmt: skip


@pytest.mark.parametrize(("name", "what"), [("vectors", "word vectors"), ("checkpoint", "checkpoints"), ("model", "models")])
def test_runs_with_other_files_are_named_in_the_record_its_text_and_its_page(
    name: str, what: str, tmp_path: Path, tried: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run_of(seed, source={**TEXTS, name: "full" if seed < 3 else "cut"}) for seed in range(4)]
    record = recorded(tried, runs, [], HOW)
    line = f"runs of penalty 0 are of different {what}: full in seeds 0 to 2; cut in seed 3"
    assert record["mixed"] == [line]
    assert line in record_text(record)
    assert line in write_page(record, tmp_path / "p.md").read_text(encoding="utf-8")
    (tmp_path / "r.json").write_text(json.dumps(record), encoding="utf-8")
    assert main(["reproduce", "tried", "--record", str(tmp_path / "r.json")]) == 0
    assert f"conoscope: Not of the same data: {line}." in capsys.readouterr().err
    alike = recorded(tried, [run_of(seed, source={**TEXTS, name: "full"}) for seed in range(4)], [], HOW)
    assert alike["mixed"] == []


def test_a_record_of_runs_on_other_texts_says_so_when_it_is_read(tried: Study) -> None:
    runs = [run_of(seed, source={**TEXTS, "train": "full" if seed else "subset"}) for seed in range(3)]
    (line,) = recorded(tried, runs, [], HOW)["mixed"]
    assert line == "runs of penalty 0 are of different texts to learn from: subset in seed 0; full in seeds 1 to 2"


ACCURACIES = (0.333, 0.333, 0.333, 0.522, 0.551)


def old(corpus: str = "esnli", examples: int = 999, accuracies: tuple[float, ...] = ACCURACIES) -> Record:
    """A record as earlier versions wrote it, of models of which some are at chance."""
    by_seed = {"accuracy": dict(enumerate(accuracies)), "depth": {seed: float(seed < 3) for seed in range(5)}}
    means = [
        {"corpus": corpus, "quantity": quantity, "mean": sum(values.values()) / 5, "sd": 0.1, "n": 5,
         "values": {str(seed): value for seed, value in values.items()}}
        for quantity, values in by_seed.items()
    ]  # fmt: skip
    runs = [{"corpus": corpus, "seed": seed, "examples": examples, "seconds": 1.0} for seed in range(5)]
    lists: dict[str, Any] = {name: [] for name in ("published", "claims", "failed", "differs")}
    facts = {"title": "Tried", "source": "nowhere", "command": "…", "commit": None, "seconds": 1.0, "versions": {}}
    return {**lists, **facts, "study": "tried", "quick": False, "limit": None, "model": None, "seeds": list(range(5)),
            "devices": ["cpu"], "means": means, "runs": runs}  # fmt: skip


def balanced_study(corpus: str = "esnli", balanced: int | None = 999) -> Study:
    return replace(
        study(Condition({"corpus": corpus}, corpus, texts=f"{corpus}:test", balanced=balanced)),
        published=(Published({"quantity": "depth"}, 0.0, "N"), Published({"quantity": "accuracy"}, 0.5, "N")),
    )


def test_the_gate_reaches_earlier_records_where_texts_are_balanced() -> None:
    found = judge_again(old(), balanced_study())
    assert [run["gated"] for run in found["runs"]] == [True, True, True, False, False]
    assert [run["accuracy"] for run in found["runs"]] == list(ACCURACIES)
    (case,) = found["claims"][0]["cases"]
    assert (case["answer"], case["gated"], case["all_mean"]) == ("not judged", 3, 0.6)
    depth, accuracy = found["published"]
    assert (depth["holds"], depth["ours"], depth["all_ours"], depth["gated"]) == ("not judged", 0, 0.6, 3)
    assert (accuracy["gated"], accuracy["n"]) == (0, 5)
    assert judge_again(found, balanced_study()) == found
    assert judge_again(old(accuracies=(0.6,) * 5), balanced_study())["claims"][0]["cases"][0]["gated"] == 0


def test_published_figures_are_those_of_runs_that_pass() -> None:
    found = judge_again(old(accuracies=(0.333, 0.6, 0.6, 0.6, 0.6)), balanced_study())["published"][0]
    assert (found["ours"], found["all_ours"], found["n"], found["all_n"]) == (0.5, 0.6, 4, 5)
    nobody = judge_again(old(accuracies=(0.333,) * 5), balanced_study())["published"][0]
    assert (nobody["holds"], "ours" in nobody, nobody["all_n"]) == ("not judged", False, 5)


@pytest.mark.parametrize(("balanced", "examples"), [(None, 999), (999, 300)])
def test_where_the_largest_class_is_not_known_no_run_is_left_out(balanced: int | None, examples: int) -> None:
    found = judge_again(old(examples=examples), balanced_study(balanced=balanced))
    assert (found["gate"], found["claims"][0]["cases"][0]["gated"]) == (None, 0)


def test_runs_that_no_gate_reaches_are_named_beside_those_that_one_does(tmp_path: Path) -> None:
    both = old()
    for other in old("yelp_hat")["runs"]:
        both["runs"].append(other)
    both["means"] += old("yelp_hat")["means"]
    conditions = (*balanced_study().conditions, *balanced_study("yelp_hat", None).conditions)
    found = judge_again(both, replace(balanced_study(), conditions=conditions))
    line = "5 runs are judged without it, since their record lacks the share of the largest class: yelp_hat."
    assert line in record_text(found)
    assert "3 of 5 runs are below: esnli (3)." in record_text(found)
    assert line in write_page(found, tmp_path / "p.md").read_text(encoding="utf-8")


def test_texts_and_pages_show_what_passing_and_all_runs_say_of_published_figures(tmp_path: Path) -> None:
    found = judge_again(old(accuracies=(0.333,) * 5), balanced_study())
    said = write_page(found, tmp_path / "p.md").read_text(encoding="utf-8")
    assert "| figure | published | ours | one run | excluded? | gated | all runs | all runs exclude? |" in said
    assert "| depth | 0.000 [N] |  |  | not judged | 5 | 0.600 ± 0.100 | not excluded |" in said
    assert "Ours is of the runs that pass the gate" in said
    assert "all runs exclude?" in record_text(found)
    for name in ("p.md", "p-published-and-ours.svg"):
        assert (tmp_path / name).is_file()


def test_the_numbers_of_classes_are_those_of_the_corpora() -> None:
    assert CLASSES["bistro"] == len(load_corpus("bistro").labels)
    assert (CLASSES["hatexplain"], CLASSES["esnli"], CLASSES["imdb"], CLASSES["yelp_hat"]) == (3, 3, 2, 2)
    assert balanced_majority(Condition({}, "bistro", texts="bistro:test-50", balanced=41), 40) == 0.5
    assert balanced_majority(Condition({}, "of-my-own", balanced=40), 40) is None


def test_a_page_of_an_earlier_version_says_so_and_leaves_the_present_meaning_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STUDIES, "tried", balanced_study())
    found = judge_again(old())
    page = write_page(found, tmp_path / "p.md").read_text(encoding="utf-8")
    assert EARLIER in page
    assert "It means much." not in page
    assert EARLIER in record_text(found)
    monkeypatch.delitem(STUDIES, "tried")
    assert is_earlier(found)
    assert EARLIER in write_page(found, tmp_path / "p.md").read_text(encoding="utf-8")


def test_a_page_of_the_present_version_has_its_meaning(tmp_path: Path, tried: Study) -> None:
    record = reproduce("tried", tmp_path, ONE)
    page = write_page(record, tmp_path / "p.md").read_text(encoding="utf-8")
    assert "It means much." in page
    for said in (page, record_text(record), record_text(reproduce("tried", tmp_path / "limited", replace(ONE, limit=20)))):
        assert EARLIER not in said


def test_a_model_of_the_hub_keeps_its_whole_name_and_its_record_is_of_the_present(tmp_path: Path) -> None:
    named, known = "google/bert_uncased_L-2", STUDIES["kobayashi-norms"]
    (condition,) = with_checkpoint(known.conditions, named)
    how = _how(Reproducing(model=named), 3)
    assert how["model"] == named
    run = {"setting": 0, "keys": dict(condition.keys)}
    assert not is_earlier({"study": known.name, **how, "settings": [setting_of(condition, None)], "runs": [run]})
    (tmp_path / "mine").mkdir()
    assert _how(Reproducing(model=tmp_path / "mine", vectors=f"{tmp_path}/g.zip:sub/g.txt"), 3) | {"wanted": 0} == {
        "quick": False, "limit": None, "model": "mine", "vectors": "g.txt", "wanted": 0,
    }  # fmt: skip


def test_runs_taken_from_records_are_counted(tmp_path: Path, tried: Study, capsys: pytest.CaptureFixture[str]) -> None:
    reproduce("tried", tmp_path / "one", replace(ONE, seeds=3))
    given = ["reproduce", "tried", "--jobs", "1", "--from", str(tmp_path / "one" / "record.json"), "-o", str(tmp_path / "two")]
    assert main([*given, "--seeds", "2"]) == 0
    assert f"4 of 6 runs taken from {given[5]}\n" in capsys.readouterr().err
    assert main([*given, "--limit", "9", "--seeds", "2"]) == 0
    assert f"none of 6 runs taken from {given[5]}: its runs are of other conditions" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["penalty=1e-4", "penalty=0.0001", "penalty=.0001"])
def test_numbers_select_conditions_however_they_are_written(given: str, tried: Study) -> None:
    assert [condition.keys["penalty"] for condition in selected(tried, tried.conditions, [given])] == [1e-4]
    with pytest.raises(MeasureError, match="values of penalty: "):
        selected(tried, tried.conditions, ["penalty=1e-5"])


def test_records_of_the_present_form_are_read_as_they_are(tmp_path: Path, tried: Study) -> None:
    record = reproduce("tried", tmp_path, ONE)
    assert read_record(tmp_path / "record.json") == record
