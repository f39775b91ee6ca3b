"""Gathering: what the commands wrote, as tables of named runs."""

import json
from pathlib import Path

import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.cli import main
from conoscope.common.errors import OutputError
from conoscope.corpora import Example
from conoscope.figures.marks import columns_of
from conoscope.measuring.pipeline import Options, measure
from conoscope.reporting.gathering import JoinedTables, Run, _named, gather, read_explanations
from conoscope.results.result import Result

TEXTS = [Example("the soup was cold", "negative"), Example("we loved it", "positive")]


@pytest.fixture(scope="module")
def measured(pure: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("measured") / "out"
    measure(pure, TEXTS, ["sim"], out=out)
    return out


def test_a_result_and_its_folder_have_the_same_tables(measured: Path) -> None:
    result = Result.load(measured)
    (of_folder,), (of_result,) = gather([measured]), gather([result])
    assert of_folder.name == of_result.name
    assert of_folder.tables["sim"].equals(of_result.tables["sim"])
    assert (of_folder.source, of_result.source) == (str(measured), "")


def test_tables_of_several_runs_are_one_with_a_column_that_names_the_run(measured: Path, pure: LoadedModel) -> None:
    other = measure(pure, TEXTS[:1], ["sim"], Options(limit=1))
    tables = JoinedTables(gather([measured, other]))
    names = list(tables["runs"]["run"])
    assert len(set(names)) == 2
    assert tables["sim"].groupby("run").size().to_dict() == dict.fromkeys(names, len(other["sim"]))
    assert list(tables["runs"]["examples"]) == [2, 1]


def test_one_run_is_called_by_its_model_and_equal_ones_are_numbered(measured: Path) -> None:
    result = Result.load(measured)
    assert len({run.name for run in gather([result, result, result])}) == 3
    folder = Result(result.tally, {**result.provenance, "model": {**result.provenance["model"], "name": "/runs/seed-0/model"}})
    assert gather([folder])[0].name == "seed-0/model"


def of(result: Result, table: str, name: str, weights: str, corpus: str) -> Run:
    provenance = {"model": {"name": name, "hash": weights}, "corpus": {"name": corpus, "split": "test"}}
    return Run("", "", provenance, {table: result["sim"]})


def test_one_name_is_of_one_model_and_one_corpus(measured: Path) -> None:
    result = Result.load(measured)
    one = of(result, "sim", "a/tuned", "1", "imdb")
    assert {run.name for run in _named([("", one), ("", of(result, "gates", "b/tuned", "1", "imdb"))])} == {"tuned"}
    corpora = _named([("", one), ("", of(result, "gates", "a/tuned", "1", "bistro"))])
    assert [run.name for run in corpora] == ["tuned on imdb:test", "tuned on bistro:test"]
    assert len({run.name for run in _named([("", one), ("", of(result, "gates", "b/tuned", "2", "imdb"))])}) == 2
    assert [run.name for run in _named([("", of(result, "sim", ".", "1", "imdb"))])] == ["."]


def test_runs_may_be_given_names(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Result.load(measured)
    assert [run.name for run in gather({"before": result, "after": measured})] == ["before", "after"]
    assert [run.name for run in gather([f"before={measured}", f"after={measured}"])] == ["before", "after"]
    monkeypatch.chdir(measured.parent)
    measured.rename("a=b")
    try:
        assert gather(["a=b"])[0].source == "a=b"
    finally:
        Path("a=b").rename(measured)


def test_a_name_cannot_steer_a_terminal(measured: Path) -> None:
    result = Result.load(measured)
    steering = Result(result.tally, {**result.provenance, "model": {**result.provenance["model"], "name": "a\x1b[2J\u202eb"}})
    assert gather([steering])[0].name == "a\\x1b[2J\\u202eb"


def test_long_names_are_cut_and_stay_different(measured: Path) -> None:
    result = Result.load(measured)
    names = [run.name for run in gather({"x" * 10_000 + "1": result, "x" * 10_000 + "2": result, "😀" * 60: result, "a": result})]
    assert len(set(names)) == 4
    assert max(map(columns_of, names)) == 60
    assert names[3] == "a"


def test_explanations_are_a_row_for_each_word_and_map_and_marks_are_a_map(tmp_path: Path) -> None:
    record = {
        "id": "a:1", "text": "not good", "pair": None, "words": ["not", "good"], "label": "negative", "predicted": None,
        "maps": {"attention": [0.25, None]}, "rationale": [1, 0], "model": "runs/pure",
    }  # fmt: skip
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps({**record, "id": "a:2", "rationale": None}) + "\n", encoding="utf-8")
    frame = read_explanations(path)
    assert frame[["example", "word", "map", "value"]].astype(object).where(frame.notna(), None).values.tolist() == [
        ["a:1", "not", "attention", 0.25],
        ["a:1", "good", "attention", None],
        ["a:1", "not", "human", 1.0],
        ["a:1", "good", "human", 0.0],
        ["a:2", "not", "attention", 0.25],
        ["a:2", "good", "attention", None],
    ]
    assert gather([path])[0].name == "pure"
    path.write_text(json.dumps({**record, "model": None}), encoding="utf-8")
    assert gather([path])[0].name == "scores"


@pytest.mark.parametrize(
    "line",
    ["not JSON", "[1]", '{"id": 1}', '{"id": 1, "label": 0, "predicted": 0, "words": ["a"], "maps": {"m": [1, 2]}}'],
)
def test_a_broken_file_of_explanations_gets_one_line(line: str, tmp_path: Path) -> None:
    good = {"id": 1, "label": None, "predicted": None, "words": [], "maps": {}}
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps(good) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(OutputError, match=r"no explanations can be read from .*, line 2: .*conoscope explain -o$"):
        read_explanations(path)


def test_what_is_no_folder_of_ours_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "sim", str(tmp_path), "-o", str(tmp_path / "sim.svg")]) == 2
    assert "expected a folder written by conoscope measure" in capsys.readouterr().err
    assert main(["figure", "sim", str(tmp_path / "nowhere"), "-o", str(tmp_path / "sim.svg")]) == 2
    assert "nowhere; give one written by conoscope measure" in capsys.readouterr().err


def test_a_figure_that_is_not_known_or_has_nothing_to_draw(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(measured.parent / "figure.svg")]
    assert main(["figure", "nothing", str(measured), *out]) == 2
    assert "no figure 'nothing'; known figures: " in capsys.readouterr().err
    assert main(["figure", "sim", *out]) == 2
    assert "a figure of sim needs a folder; give one written by conoscope measure -o" in capsys.readouterr().err
    assert main(["figure", "capacity", str(measured), *out]) == 2
    assert "there is nothing to draw capacity from; it needs capacity, there is runs, sim" in capsys.readouterr().err
    assert not (measured.parent / "figure.svg").exists()
