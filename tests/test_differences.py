"""Differences of two results: which are the largest, how they are printed, written and shown on the page."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import conoscope as cs
from conoscope.cli import main
from conoscope.common.errors import ModelError, OutputError
from conoscope.models.family import SelfAttentionForSequenceClassification
from conoscope.reporting.differing import shown_text
from conoscope.results.differences import _sizes
from conoscope.results.largest import FEWEST, Largest, largest_of, sentences
from conoscope.results.pairing import ONE_GROUP
from test_boundary import WITHOUT

HOSTILE = "</td><script>alert(1)</script>\u202e"
MEASURES = ["sim", "gates", "norms", "effective_rank"]


class Rated(dict[str, pd.DataFrame]):
    """Stands for differences: tables with sizes and units."""

    def rated(self, name: str) -> pd.DataFrame:
        return self[name]


def table(*rows: dict[str, object]) -> pd.DataFrame:
    """A table of differences; of each row what is not given is usual."""
    usual = {"site": "key", "layer": 1, "head": None, "n": 40, "other_n": 40, "interval": "paired", "units": 40}
    frame = pd.DataFrame([{**usual, **row} for row in rows])
    frame["difference"] = frame["other_value"] - frame["value"]
    half = frame.pop("half")
    frame["low"], frame["high"] = frame["difference"] - half, frame["difference"] + half
    frame["size"] = frame["difference"].abs() / frame[["value", "other_value"]].abs().max(axis=1)
    return frame[[*(c for c in frame if c not in NUMBERS), *NUMBERS]]


NUMBERS = ["value", "other_value", "difference", "low", "high", "n", "other_n", "interval", "size", "units"]


def found_in(**tables: pd.DataFrame) -> Largest:
    return largest_of(Rated({name.replace("__", "."): frame for name, frame in tables.items()}))  # type: ignore[arg-type]


def test_the_largest_are_not_the_surest_and_never_print_alike() -> None:
    sure = {"value": 9.731, "other_value": 9.734, "half": 1e-6}
    surer = {"value": 9.70, "other_value": 9.80, "half": 1e-6}
    large = {"value": 0.2, "other_value": 0.6, "half": 0.3}
    found = found_in(vector_norms=table(sure, surer), sim=table(large))
    assert (found.compared, found.beyond) == (3, 3)
    assert list(found.rows["table"]) == ["sim", "vector_norms"]
    _, first, second = sentences(found, ("before", "after"), None)
    assert first.startswith("sim (key, layer 1) is 0.2 in before and 0.6 in after: after minus before is 0.4 (0.1 to 0.7; n 40")
    assert second.startswith("vector_norms (key, layer 1) is 9.7 in before and 9.8 in after")
    assert len(sentences(found_in(vector_norms=table(sure)), ("before", "after"), None)) == 1


def test_maps_few_items_and_controls_are_not_counted_and_the_first_two_are_told() -> None:
    row = {"value": 0.2, "other_value": 0.6, "half": 0.1}
    rows = [{**row, "control": "none"}, {**row, "control": "random"}, {**row, "control": "none", "units": FEWEST - 1}]
    found = found_in(gates__maps=table(row, row, row), sim=table(*rows))
    assert (found.compared, found.beyond, found.pixels, found.few, len(found.rows)) == (1, 1, 3, 1, 1)
    (head, _) = sentences(found, ("before", "after"), None)
    assert head == (
        "1 numbers were compared, many of them related; 1 of their 95 % intervals leave out 0, and about 0 would where nothing "
        "differs: no interval is widened for their number. Not counted: 3 in maps, 1 of fewer than 10 texts or other items."
    )


def test_of_one_table_at_most_three_are_listed_and_one_has_a_sentence() -> None:
    rows = [{"value": 0.2, "other_value": 0.5 + number / 10, "half": 0.01} for number in range(6)]
    found = found_in(sim=table(*rows), norms=table({"value": 1.0, "other_value": 1.1, "half": 0.01}))
    assert list(found.listed["table"]) == ["sim"] * 3 + ["norms"]
    assert list(found.of_tables["table"]) == ["sim", "norms"]
    assert found.listed["size"].is_monotonic_decreasing


def test_a_size_is_relative_to_the_values_or_to_the_spread_if_that_is_larger() -> None:
    both = pd.DataFrame({"value": [2.0, 0.1, -0.1, 0.0], "other_value": [3.0, -0.1, 0.3, 0.0], "sd": [0.1, 3.0, np.nan, 0.0]})
    both = both.assign(sd_other=[0.1, 1.0, 1.0, 0.0], difference=both["other_value"] - both["value"])
    spread = np.sqrt((9 + 1) / 2)
    assert _sizes(both, True).to_numpy() == pytest.approx([1 / 3, 0.2 / spread, 0.4 / 0.3, np.nan], nan_ok=True)
    assert _sizes(both, False).to_numpy() == pytest.approx([1 / 3, 2.0, 0.4 / 0.3, np.nan], nan_ok=True)


@pytest.fixture(scope="module")
def folders(pure: cs.LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    torch.manual_seed(7)
    other = cs.load_model(SelfAttentionForSequenceClassification(pure.module.config).double(), pure.tokenizer)
    where = tmp_path_factory.mktemp("both")
    for name, model in (("before", pure), ("after", other)):
        cs.measure(model, "bistro:test", MEASURES, limit=40, out=where / name)
    return where / "before", where / "after"


@pytest.fixture
def compared(folders: tuple[Path, Path]) -> "cs.Result":
    return cs.Result.load(folders[0])


Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    def run(*line: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*map(str, line)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_units_are_those_of_which_the_interval_speaks(compared: cs.Result, folders: tuple[Path, Path]) -> None:
    differences = compared.compare(folders[1])
    sim, gates = differences.rated("sim"), differences.rated("gates").dropna(subset="low")
    assert set(sim["interval"]) == {f"paired, {sim['units'].iloc[0]:.0f} groups of texts"}
    paired = gates[gates["interval"].str.startswith("paired")]
    assert len(paired)
    assert [f"paired, {number:.0f} examples" for number in paired["units"]] == list(paired["interval"])
    welch = gates[~gates["interval"].str.startswith("paired")]
    assert (welch["units"] == welch[["n", "other_n"]].min(axis=1)).all()


def test_texts_of_one_group_are_one_unit_however_many_tokens_they_have(pure: cs.LoadedModel) -> None:
    one = cs.measure(pure, ["the soup was good and the bread was warm and the tea"], "vector_norms")
    rows = one.compare(one).rated("vector_norms")
    rows = rows[rows["interval"] == ONE_GROUP]
    assert set(rows["n"]) == {13}
    assert set(rows["units"]) == {1}


def test_a_result_is_compared_with_the_folder_of_a_saved_one(compared: cs.Result, folders: tuple[Path, Path]) -> None:
    for other in (folders[1], str(folders[1])):
        found, expected = compared.compare(other), compared.compare(cs.Result.load(folders[1]))
        pd.testing.assert_frame_equal(found["sim"], expected["sim"])


def test_two_measured_folders_are_compared_from_the_shell(folders: tuple[Path, Path], typed: Typed, compared: cs.Result) -> None:
    differences = compared.compare(folders[1], ("before", "after"))
    code, out, err = typed("compare", *folders, "--quiet")
    assert (code, err) == (0, "")
    assert out.startswith(shown_text(differences))
    assert "difference: after minus before, with 95 % intervals" in out
    said = " ".join(out.split())
    assert all(f"- {finding}" in said for finding in differences.findings)
    heads = next(line for line in out.splitlines() if "after minus before" in line and "size" in line)
    assert " ".join(heads.split()) == "size table place before after after minus before 95 % interval how it was made"
    assert len(differences.largest) > 5
    assert all(row["place"] in out for row in differences.largest.to_dict("records"))
    code, out, _ = typed("compare", *folders, "--quiet", "--tables")
    assert all(f"\n{name}, after minus before\n" in out for name in differences)
    code, out, _ = typed("compare", f"new={folders[1]}", f"old={folders[0]}", "--quiet")
    assert "difference: old minus new" in out


def test_differences_are_json_with_their_direction(folders: tuple[Path, Path], typed: Typed, compared: cs.Result) -> None:
    differences = compared.compare(folders[1], ("before", "after"))
    code, out, err = typed("compare", *folders, "--json", "--quiet")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["difference"], found["names"]) == ("after minus before", ["before", "after"])
    assert found["findings"] == differences.findings
    assert [row["size"] for row in found["largest"]] == pytest.approx(list(differences.largest["size"]))
    assert "tables" not in found
    every = json.loads(typed("compare", *folders, "--json", "--quiet", "--tables")[1])["tables"]
    assert {name: len(rows) for name, rows in every.items()} == {name: len(differences[name]) for name in differences}


def test_differences_are_written_as_tables(folders: tuple[Path, Path], typed: Typed, compared: cs.Result, tmp_path: Path) -> None:
    differences, out = compared.compare(folders[1], ("before", "after")), tmp_path / "apart"
    for _ in range(2):  # the same differences again
        assert typed("compare", *folders, "-o", out, "--quiet")[0] == 0
    for name in differences:
        written = pd.read_parquet(out / f"{name}.parquet")
        pd.testing.assert_frame_equal(written, differences[name], check_dtype=False)
        assert len(pd.read_csv(out / f"{name}.csv")) == len(written)
    told = json.loads((out / "differences.json").read_text(encoding="utf-8"))
    assert told["difference"] == "after minus before"
    assert told["findings"] == differences.findings
    assert [run["model"]["hash"] for run in told["runs"]] == [
        run.provenance["model"]["hash"] for run in (differences.one, differences.other)
    ]
    code, _, err = typed("compare", *reversed(folders), "-o", out, "--quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert "holds other differences" in err
    with pytest.raises(OutputError, match="holds other files than differences"):
        differences.save(folders[0])
    code, _, err = typed("report", out, "-o", tmp_path / "r.html", "--quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert "holds differences; report the two folders that they are of" in err


def test_the_report_of_two_runs_has_a_section_of_what_differs(folders: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = map(cs.Result.load, folders)
    differences = before.compare(after, names=("before", "after"))
    pages = [
        differences.report(tmp_path / "a.html"),
        cs.report({"before": folders[0], "after": folders[1]}, tmp_path / "b.html"),
    ]
    for path in pages:
        page = path.read_text(encoding="utf-8")
        section = page.partition('id="differences"')[2].partition('<section aria-labelledby="question')[0]
        assert "Differences are after minus before" in section
        for finding in differences.findings:
            assert finding.partition(" (")[0].partition(";")[0] in section
        assert section.count("<tr>") == len(differences.largest) + 1
    assert 'id="differences"' not in before.report(tmp_path / "one.html").read_text(encoding="utf-8")
    three = cs.report({"a": before, "b": after, "c": cs.Result.load(folders[0])}, tmp_path / "three.html")
    assert 'id="differences"' not in three.read_text(encoding="utf-8")


def test_hostile_names_are_text_wherever_differences_are_shown(folders: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = map(cs.Result.load, folders)
    differences = before.compare(after, names=("low", HOSTILE))
    page = differences.report(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "\u202e" not in shown_text(differences)
    assert "low to high" not in shown_text(differences)


def test_the_report_says_where_differences_cannot_be_computed(folders: tuple[Path, Path], tmp_path: Path) -> None:
    written = tmp_path / "r.html"
    given = [sys.executable, "-c", WITHOUT, "report", *map(str, folders), "-o", str(written)]
    done = subprocess.run(given, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Differences are computed from sums, which needs" in written.read_text(encoding="utf-8")


def test_a_model_without_classes_is_told_how_fine_tuning_is_compared(pure: cs.LoadedModel, minilm: cs.LoadedModel) -> None:
    for models in ([minilm, pure], [pure, minilm]):
        with pytest.raises(ModelError, match=r"measure each .* and type conoscope compare before/ after/"):
            cs.compare(models, "bistro:test", limit=4)


def test_scores_say_which_model_is_subtracted(pure: cs.LoadedModel) -> None:
    assert "\ndifference: accuracy of model minus accuracy of other\n" in str(cs.compare(pure, pure, "bistro:test", limit=20))
    assert "minus" not in str(cs.compare(pure, "bistro:test", limit=20))
