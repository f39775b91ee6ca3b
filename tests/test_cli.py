"""The command line, as a stranger uses it: what it prints, what it writes, and how it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForSequenceClassification

import conoscope.commands as commands_room
from architectures import SHAPES
from commands import refusal
from conoscope.capture.loading import LoadedModel
from conoscope.cli import main, parser
from conoscope.commands import COMMANDS
from conoscope.measuring.pipeline import Options
from conoscope.training.trainer import Training


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8").stdout


def test_help_imports_nothing_heavy() -> None:
    code = """
import sys
from conoscope.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
print("HEAVY", sorted({"torch", "transformers", "numpy", "pandas", "pyarrow", "tqdm"} & set(sys.modules)))
"""
    assert "HEAVY []" in python(code)


@pytest.mark.parametrize(
    "code",
    ["import conoscope; conoscope.train", "import conoscope.explaining", "import conoscope.cli; conoscope.cli.parser()"],
)
def test_training_explaining_and_help_load_no_figures(code: str) -> None:
    loaded = python(f"{code}\nimport sys; print(sorted(sys.modules))")
    assert "'conoscope" in loaded
    assert "'conoscope.figures" not in loaded
    assert "'altair" not in loaded


def test_help_of_a_command_imports_nothing_heavy() -> None:
    code = """
import sys
from conoscope.cli import main
from conoscope.commands import COMMANDS
for name in COMMANDS:
    try:
        main([name, "--help"])
    except SystemExit:
        pass
print("HEAVY", sorted({"torch", "transformers", "numpy", "pandas", "pyarrow", "tqdm", "altair"} & set(sys.modules)))
"""
    assert "HEAVY []" in python(code)


def test_python_m_conoscope_is_the_command_line() -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, "-m", "conoscope", *arguments], capture_output=True, text=True, encoding="utf-8")

    listed, refused = run("list", "corpora"), run("fetch", "nothing")
    assert (listed.returncode, refused.returncode) == (0, 2)
    assert "bistro" in listed.stdout
    assert refused.stderr.startswith("conoscope: ")


def test_every_file_of_a_command_is_on_the_command_line() -> None:
    files = {path.stem for path in Path(commands_room.__file__).parent.glob("*.py")}
    assert files - {"__init__", "base", "option_types", "printing", "shared_options"} == set(COMMANDS)
    assert all(command.name == name for name, command in COMMANDS.items())


def test_the_measuring_core_imports_neither_pandas_nor_pyarrow_nor_sklearn() -> None:
    code = """
import sys
blocked = ("pandas", "pyarrow", "altair", "sklearn")
for name in blocked:
    sys.modules[name] = None
import conoscope.capture.recorder, conoscope.sums.statistics, conoscope.measures.tally, conoscope.measures
print("fine")
"""
    assert python(code).strip() == "fine"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"example: conoscope {command}" in capsys.readouterr().out.replace("\n", " ")


def test_measure_prints_tables_and_writes_parquet_csv_and_provenance(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["measure", str(model), "bistro:test", "--limit", "20", "-o", str(out), "--tables"]) == 0
    printed = capsys.readouterr().out
    assert "sim, by layer" in printed
    assert f"20 examples; tables, provenance and sums written to {out}" in printed
    frame = pd.read_parquet(out / "sim.parquet")
    assert list(frame.columns[:5]) == ["measure", "site", "layer", "head", "mask"]
    assert list(frame.columns[5:8]) == ["value", "sd", "n"]
    assert frame["head"].isna().any()
    pd.testing.assert_frame_equal(
        frame, pd.read_csv(out / "sim.csv", dtype={"head": "Int64", "layer": "Int64", "n": "Int64"}), check_dtype=False
    )
    provenance = json.loads((out / "provenance.json").read_text(encoding="utf-8"))
    del provenance["blake2b"]
    assert json.loads(pq.read_schema(out / "sim.parquet").metadata[b"conoscope"]) == provenance
    assert provenance["model"]["hash"]
    expected = {
        "name": "bistro",
        "split": "test",
        "labels": ["negative", "positive"],
        "seed": 0,
        "options": "",
        "fingerprint": "",
        "marked_by": "grammar",
    }
    assert provenance["corpus"] == expected
    assert provenance["seen"]["examples"] == 20
    assert "torch" in provenance["versions"]


def test_shards_merge_into_the_whole(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["measure", str(model), "bistro:test", "--limit", "21", "--dtype", "float64"]
    assert main([*command, "-o", str(tmp_path / "whole")]) == 0
    parts = [str(tmp_path / f"part-{number}") for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        assert main([*command, "--shard", f"{number}/3", "-o", part]) == 0
    assert main(["merge", *parts, "-o", str(tmp_path / "merged")]) == 0
    whole, merged = (pd.read_parquet(tmp_path / name / "sim.parquet") for name in ("whole", "merged"))
    pd.testing.assert_frame_equal(whole, merged, rtol=0, atol=1e-9)
    capsys.readouterr()
    assert main(["merge", *parts[:2], "-o", str(tmp_path / "two")]) == 0
    assert "not the whole corpus: no shard 3/3" in capsys.readouterr().err
    assert "shard 1/3 is there twice" in refusal(capsys, "merge", parts[0], parts[0], "-o", tmp_path / "twice")
    assert "shards overlap" in refusal(capsys, "merge", parts[0], tmp_path / "whole", "-o", tmp_path / "mixed")
    assert "no results can be read" in refusal(capsys, "merge", tmp_path / "nothing", "-o", tmp_path / "none")


def test_an_output_folder_with_other_results_is_refused_and_left_alone(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["measure", str(model), "bistro:test", "-m", "sim", "-o", str(out), "--limit"]
    assert main([*command, "5"]) == 0
    assert main([*command, "5"]) == 0
    before = (out / "sim.csv").read_text(encoding="utf-8")
    capsys.readouterr()
    assert "holds other results" in refusal(capsys, *command, "6")
    assert (out / "sim.csv").read_text(encoding="utf-8") == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    assert "holds files that are not conoscope's" in refusal(capsys, "measure", model, "bistro:test", "-o", tmp_path / "mine")


def test_a_file_with_named_columns_is_measured(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "reviews.csv").write_text(
        "review,mood\nthe soup was cold,negative\nthe soup was good,positive\n", encoding="utf-8"
    )
    assert main(["measure", str(model), str(tmp_path / "reviews.csv"), "--text", "review", "--label", "mood", "-m", "sim"]) == 0
    assert "reviews.csv, 2 texts" in capsys.readouterr().out


def test_bytes_that_are_not_utf_8_are_told(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "latin.csv"
    file.write_bytes(b"text,label\ncaf\xe9 noir,positive\nbad soup,negative\n")
    assert main(["measure", str(model), str(file), "-m", "sim", "-o", str(tmp_path / "out")]) == 0
    assert "has 1 bytes that are not UTF-8, replaced; save it as UTF-8, or its words are others" in capsys.readouterr().err


def test_bad_input_gets_one_line_and_exit_code_2(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    (tmp_path / "odd.csv").write_text("text,label\nfine soup,neutral\n", encoding="utf-8")
    (tmp_path / "row.csv").write_text("text,label\nfine soup,positive\n,negative\n", encoding="utf-8")
    assert "no corpus 'nowhere'" in refusal(capsys, "measure", model, "nowhere:test")
    assert "no split 'dev'" in refusal(capsys, "measure", model, "bistro:dev")
    assert "has no column 'review'" in refusal(capsys, "measure", model, tmp_path / "odd.csv", "--text", "review")
    assert "is empty" in refusal(capsys, "measure", model, tmp_path / "empty.csv")
    assert "row.csv:3: the column 'text' has no text" in refusal(capsys, "measure", model, tmp_path / "row.csv")
    assert "has the label 'neutral'" in refusal(capsys, "measure", model, tmp_path / "odd.csv")
    assert "no measure 'doors'; known measures: attention_entropy, capacity, class_cones" in refusal(
        capsys, "measure", model, "bistro:test", "-m", "doors"
    )
    assert "no folder" in refusal(capsys, "measure", tmp_path / "no-model", "bistro:test")
    assert main(["measure", str(model), str(tmp_path / "odd.csv"), "--no-labels"]) == 0


def test_a_checkpoint_with_nan_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights["classifier.weight"][0] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert "holds NaN or infinity in 'classifier.weight'" in refusal(capsys, "measure", tmp_path, "bistro:test")


def saved(name: str, pure: LoadedModel, folder: Path) -> Path:
    """A small random classifier of a type, with a tokenizer."""
    shape = {**SHAPES["bert"], "vocab_size": len(pure.tokenizer), "id2label": {0: "negative", 1: "positive"}}
    AutoModelForSequenceClassification.from_config(AutoConfig.for_model(name, **shape)).save_pretrained(folder)
    pure.tokenizer.save_pretrained(folder)
    return folder


def test_deberta_is_measured_though_it_is_off_the_interface(pure: LoadedModel, tmp_path: Path) -> None:
    folder = saved("deberta-v2", pure, tmp_path / "deberta")
    assert main(["measure", str(folder), "bistro:test", "--limit", "8", "-o", str(tmp_path / "result")]) == 0


def test_a_model_without_attention_is_refused_with_what_is_supported(
    pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved("fnet", pure, tmp_path)
    assert "never called transformers' attention interface" in refusal(capsys, "measure", folder, "bistro:test", "--limit", "4")


def test_text_that_would_steer_a_terminal_is_not_printed_as_such(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("text,label\nfine soup,\x1b[31mred\n", encoding="utf-8")
    assert "\x1b" not in refusal(capsys, "measure", model, tmp_path / "a.csv")


@pytest.mark.parametrize("shard", ["0/4", "5/4", "x", "1"])
def test_a_shard_that_makes_no_sense_is_refused(shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["measure", "m", "c", "--shard", shard])
    assert stopped.value.code == 2
    assert "is not I/N with I from 1 to N, such as 1/4" in capsys.readouterr().err


def test_a_shard_with_nothing_in_it_says_so_and_merges(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["measure", str(model), "bistro:test", "--limit", "2", "-m", "sim", "--shard"]
    for number in (1, 2, 3):
        assert main([*command, f"{number}/3", "-o", str(tmp_path / str(number))]) == 0
    assert "nothing to measure in this shard; its sums are kept" in capsys.readouterr().err
    assert main(["merge", *(str(tmp_path / str(number)) for number in (3, 1, 2)), "-o", str(tmp_path / "whole")]) == 0
    assert "2 examples" in capsys.readouterr().out


@pytest.mark.parametrize(("what", "name"), [("measures", "sim"), ("corpora", "bistro-topics"), ("presets", "pure-attention")])
def test_list_names_what_there_is(what: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    assert name in capsys.readouterr().out


def test_the_same_name_with_other_content_or_columns_is_another_corpus(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "a.csv", tmp_path / "out"
    path.write_text("text,other\nthe soup was cold,we loved the bread\n", encoding="utf-8")
    assert main(["measure", str(model), str(path), "-o", str(out)]) == 0
    capsys.readouterr()
    changed = "holds other results (a.csv had other texts or columns)"
    assert changed in refusal(capsys, "measure", model, path, "--text", "other", "-o", out)
    path.write_text("text,other\nthe soup was warm,we loved the bread\n", encoding="utf-8")
    assert changed in refusal(capsys, "measure", model, path, "-o", out)
    assert main(["measure", str(model), "bistro:test", "--limit", "3", "-o", str(tmp_path / "b")]) == 0
    capsys.readouterr()
    other_seed = refusal(capsys, "measure", model, "bistro:test", "--limit", "3", "--seed", "1", "-o", tmp_path / "b")
    assert "holds other results (corpus seed 0, not 1)" in other_seed


def test_results_of_different_models_do_not_merge(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in model.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps({**config, "num_attention_heads": 1}), encoding="utf-8")
    for number, folder in enumerate((model, other), 1):
        command = ["measure", str(folder), "bistro:test", "--limit", "4", "--shard", f"{number}/2"]
        assert main([*command, "-o", str(tmp_path / f"part-{number}")]) == 0
    capsys.readouterr()
    refused = refusal(capsys, "merge", tmp_path / "part-1", tmp_path / "part-2", "-o", tmp_path / "whole")
    assert "these are not parts of one result (model hash" in refused


def test_texts_that_were_cut_off_are_counted(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(model), "bistro:test", "--limit", "5", "--max-length", "4", "-m", "sim"]) == 0
    assert "5 of 5 texts were cut off at the longest input" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{}", "[]", "null", "not json", '{"model": 3}'])
def test_a_foreign_provenance_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (tmp_path / "provenance.json").write_text(content, encoding="utf-8")
    assert "no provenance can be read" in refusal(capsys, "measure", model, "bistro:test", "--limit", "2", "-o", tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [("{}", "no results can be read"), ("not json", "no results can be read"), ('{"format": 1}', "in format 1")],
)
def test_sums_that_are_not_ours_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    assert main(["measure", str(model), "bistro:test", "--limit", "2", "-m", "sim", "-o", str(tmp_path / "part")]) == 0
    (tmp_path / "part" / "tally.json").write_text(content, encoding="utf-8")
    capsys.readouterr()
    assert said in refusal(capsys, "merge", tmp_path / "part", "-o", tmp_path / "out")


def test_an_output_path_that_cannot_be_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for out in (tmp_path / "file", tmp_path / ("x" * 300)):
        assert "cannot make the folder" in refusal(capsys, "measure", model, "bistro:test", "--limit", "2", "-o", out)
    assert "no corpus 'xxx" in refusal(capsys, "measure", model, "x" * 300)


@pytest.mark.parametrize(
    "options", [["--seed", "-1"], ["--lr", "nan"], ["--lr", "-1"], ["--layers", "x"], ["--seed", "99999999999"]]
)
def test_numbers_that_make_no_sense_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", "bistro", "-o", "nowhere", *options])
    assert stopped.value.code == 2
    assert f"argument {options[0]}: '{options[1]}' is not a" in capsys.readouterr().err


def test_the_demonstration_trains_once_measures_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conoscope.commands.demo.QUICK", {"layers": 1, "width": 16, "epochs": 1, "device": "cpu"})
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 0
    assert "training pure-attention" in capsys.readouterr().out
    assert (tmp_path / "demo" / "tables" / "sim.csv").is_file()
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out
    assert "training" not in printed
    assert "sim, by layer" in printed
    assert "was trained with seed 0; give -o another folder" in refusal(capsys, "demo", "-o", tmp_path / "demo", "--seed", "1")


def test_the_command_line_and_the_library_have_the_same_defaults() -> None:
    for command, kind in ((["train", "c", "-o", "o"], Training), (["measure", "m", "c"], Options)):
        given = vars(parser().parse_args(command))
        assert {name: getattr(kind(), name) for name in given if hasattr(kind(), name)} == {
            name: value for name, value in given.items() if hasattr(kind(), name)
        }


def test_the_weights_are_measured_without_a_corpus(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(model), "-o", str(tmp_path / "out"), "--tables"]) == 0
    assert "directionality, by layer" in capsys.readouterr().out
    assert (tmp_path / "out" / "directionality.heads.csv").is_file()
    assert main(["measure", str(model), "-m", "sim"]) == 2
    assert "sim cannot be measured without texts; give a corpus" in capsys.readouterr().err
