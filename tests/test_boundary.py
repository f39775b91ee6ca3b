"""Tables are the boundary: looking at what was measured needs neither torch nor transformers nor the measures."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.common.errors import OutputError
from conoscope.common.questions import EXPLORED, QUESTIONS
from conoscope.corpora import Corpus, load_corpus
from conoscope.measuring.pipeline import Options, measure
from conoscope.results import result as results
from conoscope.results import store
from conoscope.results.result import Result
from conoscope.results.store import INDEX, read_index, write_tables

BLOCKED = ("torch", "transformers", "conoscope.measures", "conoscope.capture", "conoscope.quantities", "conoscope.sums")
MEASURES = ["sim", "class_cones", "gates", "norms", "sim:mask=real"]
WITHOUT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in {BLOCKED}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from conoscope.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def measured(pure: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("measured") / "out"
    measure(pure, load_corpus("bistro:test").first(24), MEASURES, Options(), out)
    return out


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "out"))


def without_torch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("command", [("report",), ("figure", "sim"), ("figure", "gates"), ("figure", "class-cones")])
def test_reports_and_figures_are_made_without_torch(command: tuple[str, ...], measured: Path, tmp_path: Path) -> None:
    written = tmp_path / "written.html"
    done = without_torch(*command, measured, "-o", written)
    assert (done.returncode, done.stderr) == (0, "")
    assert written.stat().st_size > 10_000


def test_a_figure_of_no_tables_is_drawn_without_torch(tmp_path: Path) -> None:
    assert without_torch("figure", "positions", "-o", tmp_path / "p.svg").returncode == 0


def test_a_folder_of_sums_alone_is_refused_in_one_line_without_torch(folder: Path, tmp_path: Path) -> None:
    for path in (*folder.glob("*.parquet"), folder / INDEX):
        path.unlink()
    done = without_torch("report", folder, "-o", tmp_path / "r.html")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "needs torch" in done.stderr or "needs conoscope" in done.stderr
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("lost", ["the index", "a table", "half of the index"])
def test_a_folder_that_lacks_tables_is_read_from_its_sums_once(
    lost: str, folder: Path, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = {
        "the index": (folder / INDEX).unlink,
        "a table": (folder / "sim.parquet").unlink,
        "half of the index": lambda: (folder / INDEX).write_bytes((folder / INDEX).read_bytes()[:99]),
    }
    damage[lost]()
    same_tables(Result.load(folder), Result.load(measured))
    monkeypatch.setattr(results, "_from_sums", lambda *_: pytest.fail("the sums were read a second time"))
    same_tables(Result.load(folder), Result.load(measured))


def same_tables(one: Result, other: Result) -> None:
    assert list(one.tables) == list(other.tables)
    assert one.index == other.index
    for name in one.tables:
        pd.testing.assert_frame_equal(one[name], other[name], check_exact=True)


def test_a_saved_result_has_the_tables_that_were_measured(pure: LoadedModel, sentences: Corpus, tmp_path: Path) -> None:
    result = measure(pure, sentences, None, Options(), tmp_path / "out")
    same_tables(Result.load(tmp_path / "out"), result)


def test_a_table_is_read_when_it_is_asked_for_and_once(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = pd.read_parquet
    monkeypatch.setattr(pd, "read_parquet", lambda file: read.append(Path(file.name).name) or original(file))
    result = Result.load(measured)
    assert "gates.names" in result.tables
    assert read == []
    assert result["sim"] is result["sim"]
    assert read == ["sim.parquet"]


def test_tables_that_were_cut_short_while_written_anew_are_not_taken_for_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Result.load(folder)
    tables = dict(result.tables)
    monkeypatch.setattr(store, "write_parquet", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        write_tables(folder, tables, result.provenance, result.index)
    assert read_index(folder) is None


def test_a_torn_table_is_told_in_one_line(folder: Path) -> None:
    (folder / "sim.parquet").write_bytes(b"PAR1")
    with pytest.raises(OutputError, match=r"^no table can be read from .*sim\.parquet: "):
        _ = Result.load(folder)["sim"]


def test_files_of_tables_say_what_they_hold(measured: Path) -> None:
    index = json.loads((measured / INDEX).read_text(encoding="utf-8"))["tables"]
    assert next(iter(index)) == "sim"
    assert {**index["sim"], "summary": ""} == {"summary": "", "question": "cones", "place": 0, "low": -1, "high": 1}
    for name, info in index.items():
        assert info["question"] in {*QUESTIONS, EXPLORED}
        assert info["summary"]
        stem = name.replace(":", "-").replace("=", "-")
        metadata = pq.read_schema(measured / f"{stem}.parquet").metadata
        assert json.loads(metadata[b"conoscope.table"]) == {"name": name, **info}
        assert json.loads(metadata[b"conoscope"])["measures"] == MEASURES
