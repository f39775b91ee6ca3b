"""The first minutes on the command line: what people type first works, as typed, and what they type wrong says what to type."""

import io
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from conoscope.cli import main
from conoscope.commands import COMMANDS
from conoscope.common import terminal
from conoscope.common.terminal import Activity, Painted, Progress, doing, say, speaking
from conoscope.corpora.headers import _tell

Run = Callable[[str], tuple[int, str, str]]
TINY = "--layers 1 --width 8 --epochs 1 --device cpu"


@pytest.fixture
def run(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a line as typed, in a folder with two models and some files of texts."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        shutil.copytree(model, tmp_path / "runs" / name)
    good, bad = "the soup was good,positive", "the soup was cold,negative"
    rows = "".join(f"{text} {number},{label}\n" for number in range(40) for text, label in (good.split(","), bad.split(",")))
    Path("reviews.csv").write_text(f"review,mood\n{rows}", encoding="utf-8")
    Path("plain.tsv").write_text(rows.replace(",", "\t"), encoding="utf-8")
    Path("numbers.csv").write_text(rows.replace("positive", "1").replace("negative", "0"), encoding="utf-8")
    marked = 'the soup was cold,negative,"0 0 0 1"\n' * 3
    Path("words.csv").write_text(f"text,label,why\n{marked}", encoding="utf-8")
    Path("mine.jsonl").write_text(json.dumps({"text": "the soup was cold", "scores": [0, 0, 0, 1]}), encoding="utf-8")
    Path("splits").mkdir()
    for split in ("train", "validation", "test"):
        Path("splits", f"{split}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")

    Path("headed.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    Path("unclear.tsv").write_text("fine\t0\ngood\tgreen\nbad\tred\n", encoding="utf-8")
    Path("texts.txt").write_text("the soup was good\n", encoding="utf-8")
    for folder in ("before", "after"):
        Path(folder).mkdir()
        Path(folder, "provenance.json").write_text("{}", encoding="utf-8")
    Path("runs/half/checkpoints").mkdir(parents=True)
    Path("runs/half/checkpoints/conoscope.json").write_text("{}", encoding="utf-8")

    def typed(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main(shlex.split(line.removeprefix("conoscope ")))
        except SystemExit as stopped:
            code = int(str(stopped.code))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return typed


# One order: models first, the corpus last


@pytest.mark.parametrize(
    "line",
    [
        "conoscope compare runs/a runs/b reviews.csv --text review --label mood",
        "conoscope compare runs/a --text review runs/b --label mood reviews.csv",
        "conoscope compare runs/a reviews.csv --text review --label mood",
        "conoscope plausibility runs/a words.csv --rationale why --map attention --resamples 9",
        "conoscope plausibility words.csv --rationale why --scores mine.jsonl --resamples 9",
        "conoscope faithfulness runs/a words.csv --map attention --resamples 9",
        "conoscope explain runs/a words.csv -o scores.jsonl",
        "conoscope measure runs/a bistro:test --limit 9 -m sim",
        "conoscope measure runs/a --limit 9 -m sim bistro:test",
    ],
)
def test_models_stand_first_and_the_corpus_last_with_options_anywhere(line: str, run: Run) -> None:
    code, out, err = run(line)
    assert code == 0, err
    assert out
    assert "next version" not in err


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ("conoscope compare runs/a runs/b --corpus splits:test", "type conoscope compare runs/a runs/b splits:test"),
        (
            "conoscope plausibility words.csv --model runs/a --rationale why --map attention --resamples 9",
            "type conoscope plausibility runs/a words.csv",
        ),
    ],
)
def test_the_old_order_works_for_one_version_and_one_line_says_what_to_type(line: str, now: str, run: Run) -> None:
    code, out, err = run(line)
    assert code == 0
    assert out
    assert [said for said in err.splitlines() if "next version" in said and now in said]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("conoscope measure bistro:test runs/a", "models come first, the corpus last; type runs/a bistro:test"),
        ("conoscope compare bistro:test", "as in conoscope compare runs/a runs/b bistro:test"),
        ("conoscope plausibility runs/a words.csv --model runs/b", "two models"),
        ("conoscope mesure runs/a bistro:test", "did you mean measure?"),
        ("conoscope measure runs/a bistro:test --tabels", "did you mean --tables?"),
        ("conoscope list measure", "did you mean measures?"),
        ("conoscope report runs/a", "holds a model and no tables; measure it, as in conoscope measure runs/a CORPUS"),
        ("conoscope corpus reviews.csv --text review --label-names bad", "give one for each, in this order"),
        ("conoscope compare before/ after/", "no results can be read from before: it holds no tally.json"),
        ("conoscope compare before/ after/ --limit 3", "--limit does nothing for two measured folders"),
        ("conoscope compare runs/a runs/b words.csv --tables", "--tables does nothing without two measured folders"),
        ("conoscope compare before/", "before/ is one measured folder; give two, as in conoscope compare before/ after/"),
        ("conoscope compare before/ ./before", "before/ is given twice; give two folders"),
        ("conoscope compare runs/a after/ bistro:test", "after/ is a measured folder and no model; type conoscope report after/"),
        ("conoscope compare runs/a numbers.csv --text 0 --label 1 --quiet", "rename the labels with --label-names 0=...,1=..."),
        ("conoscope explain runs/a --words good bad", "'good' and 'bad'; repeat --words for each text"),
        ("conoscope explain runs/a good", "no corpus 'good', and no such file"),
        ("conoscope explain runs/a texts.txt", "if it has one text a line, type conoscope explain runs/a - < texts.txt"),
        (
            "conoscope figure after sim -o a.svg",
            "the figure comes first, folders after it; type conoscope figure sim after -o a.svg",
        ),
        ("conoscope report nope", "no folder nope; give one written by conoscope measure"),
        ("conoscope figure sim nope -o a.svg", "no folder nope; give one written by conoscope measure"),
        ("conoscope measure runs/nope bistro:test", "no folder 'runs/nope'; give a folder written by save_pretrained"),
        ("conoscope measure runs/half bistro:test", "the training in 'runs/half' is not finished; give its command again"),
        ("conoscope report runs/half", "the training in runs/half is not finished; give its command again"),
        ("conoscope corpus reviews.csv", "it has review, mood; choose"),
        ("conoscope corpus headed.csv --text 0 --label 1", "has a header, text, label, so its columns have no numbers"),
        ("conoscope corpus unclear.tsv --text 0", "may be a header or a row, so 0 may be a name or a place; put a header"),
        ("conoscope corpus splits:dev", "no split 'dev' in splits; it has test, train, validation"),
    ],
)
def test_what_is_typed_wrong_gets_one_line_that_says_what_to_type(line: str, said: str, run: Run) -> None:
    code, out, err = run(line)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err


# What measure prints, and where it leaves things


def test_measure_prints_findings_ten_lines_of_numbers_and_where_the_tables_are(run: Run) -> None:
    code, out, _ = run("conoscope measure runs/a bistro:test --limit 30")
    assert code == 0
    assert out.startswith("runs/a on bistro:test, 30 texts\nAccuracy: ")
    assert "\n- The narrowest of " in out
    numbers = out.split("\nby layer")[1].split("\n\n")[0].splitlines()[1:]
    assert len(numbers) == 10
    (nearest,) = (line for line in numbers if line.startswith("class_cones.nearest"))
    assert "held_out" in nearest, "directions of the same texts would flatter"
    assert "written to conoscope-a-bistro-test\n" in out
    assert Path("conoscope-a-bistro-test", "sim.csv").is_file()
    code, every, _ = run("conoscope measure runs/a bistro:test --limit 30 --tables")
    assert "sim, by layer" in every
    assert "mixing, by layer" in every
    assert len(every) > 3 * len(out)


def test_a_default_folder_is_this_run_s_own_and_never_another_s(run: Run) -> None:
    first, again, other, shard = (
        run(f"conoscope measure runs/a {rest}")[1].splitlines()[-2].split(" to ")[-1]
        for rest in (
            "bistro:test --limit 9 -m sim",
            "bistro:test --limit 9 -m sim",
            "bistro:test --limit 8 -m sim",
            "bistro:test --limit 8 -m sim --shard 1/2",
        )
    )
    assert first == again == "conoscope-a-bistro-test"
    assert other == "conoscope-a-bistro-test-2"
    assert shard == "conoscope-a-bistro-test-1-of-2"
    assert json.loads(Path(first, "provenance.json").read_text(encoding="utf-8"))["options"]["limit"] == 9
    Path("reviews.csv").write_text("review,stars\nthe soup was good,positive\n", encoding="utf-8")
    assert "written to conoscope-a-reviews\n" in run("conoscope measure runs/a reviews.csv --text review --label stars -m sim")[1]
    Path("conoscope-a-weights").mkdir()
    Path("conoscope-a-weights", "thesis.txt").write_text("years of work", encoding="utf-8")
    assert "written to conoscope-a-weights-2\n" in run("conoscope measure runs/a")[1]
    assert [path.name for path in Path("conoscope-a-weights").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["../odd name/mödel", "runs/best", "hub:x/y", "/"])
def test_a_default_folder_has_a_name_that_every_system_takes(name: str) -> None:
    from conoscope.cli import parser
    from conoscope.commands.measure import _default_folder

    folder = _default_folder(parser().parse_args(["measure", name, "reviews.csv"]))
    assert len(folder.parts) == 1
    assert str(folder).isascii()
    assert str(folder).startswith("conoscope-")


# Reports of any folder, and the same command again


def test_report_and_figure_take_the_folder_that_any_command_wrote(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conoscope.commands.demo.QUICK", {"layers": 1, "width": 16, "epochs": 1, "device": "cpu"})
    code, out, _ = run("conoscope demo")
    assert code == 0
    assert "what to type next:" in out
    for line in (each.strip().split("   ")[0] for each in out.split("what to type next:\n")[1].splitlines()):
        assert line.startswith("conoscope ")
        if "FILE" not in line and not line.startswith("conoscope explore"):  # which runs until it is stopped
            assert run(line)[0] == 0, line
    assert run("conoscope report conoscope-demo")[0] == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "explanations" in page
    assert run("conoscope figure sim conoscope-demo -o sim.svg")[0] == 0
    assert run("conoscope gates conoscope-demo")[0] == 0
    for command in (
        "plausibility runs/a words.csv --rationale why --map attention --resamples 9 -o plausible",
        "faithfulness runs/a words.csv --map attention --resamples 9 -o faithful",
        "measure runs/a bistro:test --limit 9 -m sim -o out/one",
        "measure runs/a bistro:test --limit 9 -m heads -o out/two",
    ):
        assert run(f"conoscope {command}")[0] == 0
    for folder in ("plausible", "faithful", "out/one", "out"):
        assert run(f"conoscope report {folder} -o {folder.replace('/', '-')}.html")[0] == 0


def test_a_study_s_folder_is_reported(run: Run) -> None:
    from conoscope.results.store import TableInfo, write_provenance, write_tables

    Path("study-x", "tables").mkdir(parents=True)
    provenance = {"model": {"name": "x"}, "corpus": {}, "seen": {}, "shards": [], "measures": ["x"], "options": {}}
    write_provenance(Path("study-x", "tables"), provenance)
    tables = {"study.means": pd.DataFrame([{"value": 1.0, "n": 1}])}
    write_tables(Path("study-x", "tables"), tables, provenance, {"study.means": TableInfo(question="studies")})
    assert run("conoscope report study-x")[0] == 0


def test_the_same_training_again_is_resumed_and_a_finished_one_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"conoscope train reviews.csv --text review --label mood -o runs/mine {TINY.replace('--epochs 1', '--epochs 3')}"
    from conoscope.training.epoch_progress import EpochProgress

    def stop(self: object, args: object, state: object, control: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(EpochProgress, "on_save", stop)
        code, _, err = run(line)
    assert code == 130
    assert err.splitlines()[-1] == "conoscope: stopped; the same command goes on from there"
    code, out, err = run(line)
    assert code == 0
    assert "epoch 1:" not in err
    assert "epoch 2:" in err
    assert run(f"{line} --resume")[:2] == (0, out)
    code, said, err = run(line.replace("--width 8", "--width 16"))
    assert (code, said) == (2, "")
    assert "was trained with another width; give the same settings and data to go on, or -o a new folder" in err
    assert err.endswith("(width 8 then, 16 now)\n")


# Your own texts


def test_a_file_without_a_header_is_detected_and_told(run: Run) -> None:
    code, out, err = run("conoscope corpus plain.tsv")
    assert code == 0
    assert "negative" in out
    assert "plain.tsv has no header: column 0 is read as the text and column 1 as the label" in err
    code, out, err = run("conoscope corpus plain.tsv --text 0 --label 1")
    assert code == 0
    assert "80" in out
    assert "no header" not in err
    code, out, err = run("conoscope measure runs/a numbers.csv --text 0 --label 1 --label-names negative,positive -m class_cones")
    assert code == 0, err
    assert "Accuracy: " in out


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("text,label\na good film,1\n", True),
        ("review,stars\nfine,1\ngood,2\n", True),
        ("review,stars\nthe soup was good,1\nthe soup was bad,2\n", True),
        ("the soup was good,1\nthe soup was bad,0\nthe bread was good,1\n", False),
        ("1,the soup was good\n0,the soup was bad\n1,the bread was good\n", False),
        ("What a lovely evening that was!\nNever again.\n", False),
    ],
)
def test_a_header_is_what_does_not_look_like_the_rows(content: str, header: bool, tmp_path: Path) -> None:
    from conoscope.corpora.files import Columns
    from conoscope.corpora.headers import without_header

    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    assert (without_header(tmp_path / "a.csv", Columns(), Columns()) is None) == header


ROWS = "the room was bad\t0\nthe soup was good\t1\nthe bread was cold\t0\n"


@pytest.mark.parametrize("columns", ["--text 0", "--text 0 --label 1", "--label 1", ""])
def test_a_number_is_a_place_in_a_file_without_a_header_even_if_the_first_row_has_it(columns: str, run: Run) -> None:
    Path("first.tsv").write_text(ROWS, encoding="utf-8")
    _tell.cache_clear()
    code, out, err = run(f"conoscope corpus first.tsv {columns} --json")
    assert code == 0, err
    samples = {sample["text"]: sample["label"] for sample in json.loads(out)["samples"]}
    labels = (None, None, None) if columns == "--text 0" else ("0", "1", "0")
    assert samples == dict(zip(("the room was bad", "the soup was good", "the bread was cold"), labels, strict=True))
    assert err.count("\n") == 1
    assert "first.tsv has no header: column 0 is read as the text" in err


@pytest.mark.parametrize(
    ("content", "text", "label", "labels"),
    [
        (f"0\t1\n{ROWS}", 0, 1, ("0", "1")),  # numbers as names, as pandas writes them
        ("\t0\t1\n7\tgood soup\t1\n8\tbad soup\t0\n", 0, 1, ("0", "1")),  # and its index
        ("0\tstars\ngood soup\t1\nbad soup\t2\n", 0, "stars", ("1", "2")),
        ("fine soup\t0\n", 0, 1, ("0",)),
        ("0\tgood\n1\tbad\n2\tfine\n", 1, 0, ("0", "1", "2")),
    ],
)
def test_whole_numbers_choose_columns_from_python(content: str, text: int, label: object, labels: object, tmp_path: Path) -> None:
    import conoscope as cs

    (tmp_path / "a.tsv").write_text(content, encoding="utf-8")
    found = cs.load_corpus(tmp_path / "a.tsv", text=text, label=label)
    assert found.labels == labels
    assert len([*found]) == len(content.splitlines()) - (labels != ("0", "1", "2") and len(content.splitlines()) > 1)


def test_a_data_frame_with_numbered_columns_is_read_by_number() -> None:
    import conoscope as cs

    frame = pd.DataFrame([["the soup was good", "1"], ["the soup was cold", "0"]])
    assert [e.label for e in cs.load_corpus(frame, text=0, label=1)] == ["1", "0"]


def test_train_takes_a_limit_and_says_what_was_scored_and_which_class_is_missing(run: Run) -> None:
    line = f"conoscope train reviews.csv --text review --label mood --validation reviews.csv --limit 6 -o runs/few {TINY}"
    code, out, err = run(line)
    assert code == 0, err
    corpora = json.loads(Path("runs/few/training.json").read_text(encoding="utf-8"))["corpora"]
    assert [corpus["examples"] for corpus in corpora.values()] == [6, 6]
    assert ", 6 texts\n" in out
    assert "which cannot be" not in err
    code, out, err = run(line.replace("--limit 6", "--limit 1").replace("runs/few", "runs/one"))
    assert ", 1 text\n" in out
    assert "none of the 1 texts of validation has the label negative, which cannot be scored there" in err


def test_labels_of_every_corpus_can_be_named(run: Run) -> None:
    assert run("conoscope compare runs/a bistro:test --limit 9 --label-names negative=bad,positive=good")[0] == 2
    code, _, err = run("conoscope measure runs/a bistro:test --limit 9 -m sim --label-names negative=positive,positive=negative")
    assert code == 0, err
    code, _, err = run("conoscope compare runs/a reviews.csv --text review --label mood --label-names 0=bad,1=good")
    assert code == 2
    assert "--no-labels" not in run("conoscope compare runs/a numbers.csv --text 0 --label 1")[2]
    assert "or measure with --no-labels" in run("conoscope measure runs/a numbers.csv --text 0 --label 1")[2]


def test_a_column_of_texts_as_labels_prints_few_lines_and_says_so(run: Run) -> None:
    code, out, _ = run("conoscope corpus reviews.csv --text review --label review")
    assert code == 0
    assert len(out.splitlines()) < 25
    assert "80 labels in all; they look like texts or numbers of rows: name the column of classes with --label" in out


def test_measures_may_be_given_with_commas(run: Run) -> None:
    from conoscope.commands.measure import named_measures

    assert named_measures(["sim,gates", "sim:mask=real,of=x", "norms"]) == ["sim", "gates", "sim:mask=real,of=x", "norms"]
    assert run("conoscope measure runs/a bistro:test --limit 9 -m sim,gates -o both")[0] == 0
    assert Path("both", "sim.csv").is_file()
    assert [*Path("both").glob("gates*.csv")]


def test_measure_gives_accuracy_and_cut_texts_as_numbers(run: Run) -> None:
    found = json.loads(run("conoscope measure runs/a bistro:test --limit 10 -m sim --max-length 6 --json")[1])
    assert 0 <= found["accuracy"] <= 1
    assert (found["accuracy_n"], found["largest_class"]) == (10, 0.6)
    assert isinstance(found["texts_cut"], int)
    assert found["facts"]["accuracy"].startswith(f"{100 * found['accuracy']:.1f} % of 10 labelled texts")


def test_train_takes_a_validation_file_names_of_labels_and_a_folder_of_splits(run: Run) -> None:
    columns = "--text review --label mood"
    assert run(f"conoscope train reviews.csv {columns} --validation reviews.csv -o runs/mine {TINY}")[0] == 0
    corpora = json.loads(Path("runs/mine/training.json").read_text(encoding="utf-8"))["corpora"]
    assert {name: corpus["examples"] for name, corpus in corpora.items()} == {"train": 80, "validation": 80}
    assert run(f"conoscope train numbers.csv --text 0 --label 1 --label-names bad,good -o runs/named {TINY}")[0] == 0
    assert json.loads(Path("runs/named/config.json").read_text(encoding="utf-8"))["id2label"] == {"0": "bad", "1": "good"}
    assert run(f"conoscope train splits -o runs/split {TINY}")[0] == 0
    assert run("conoscope measure runs/split splits:test -m sim")[0] == 0
    assert "hub:ID" in run("conoscope train --help")[1]
    assert "a folder of files called train, validation and" in " ".join(run("conoscope train --help")[1].split())


def test_samples_show_every_class(run: Run) -> None:
    _, out, _ = run("conoscope corpus bistro-stars:test")
    assert {line.split()[0] for line in out.split("samples of")[1].splitlines()[1:]} == set("12345")


# Explaining a few texts


def test_explain_shows_probabilities_of_several_texts_and_reads_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run('conoscope explain runs/a --words "the soup was good" --words "the soup was cold"')
    assert out.count("predicted: ") == 2
    shares = [float(word.strip("(),")) for word in out.splitlines()[5].split() if word.strip("(),").startswith("0.")]
    assert sum(shares) == pytest.approx(1, abs=2e-3)
    for line in ('"the soup was good" "the soup was cold"', '--words "the soup was good" "the soup was cold"'):
        assert run(f"conoscope explain runs/a {line}")[1] == out
    for line in ("conoscope explain runs/a --words -", "conoscope explain runs/a -"):
        monkeypatch.setattr(sys, "stdin", io.StringIO("the soup was good\n\nthe soup was cold\n"))
        assert run(line)[1] == out
    found = json.loads(run('conoscope explain runs/a --words "the soup was good" --json')[1])
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1)


def test_colours_are_for_terminals_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = Painted((("good\x1b[2J", "for3"), (" soup", "")))
    say(text)
    assert capsys.readouterr().out == "good\\x1b[2J soup\n"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    say(text)
    assert capsys.readouterr().out == "\x1b[48;5;114;30mgood\\x1b[2J\x1b[0m soup\n"
    monkeypatch.setenv("NO_COLOR", "1")
    say(text)
    assert capsys.readouterr().out == "good\\x1b[2J soup\n"


# JSON, quiet, help, completion, exit codes

TABLES = {
    "train": f"train reviews.csv --text review --label mood -o runs/mine {TINY}",
    "measure": "measure runs/a bistro:test --limit 9",
    "explain": "explain runs/a words.csv",
    "plausibility": "plausibility runs/a words.csv --rationale why --map attention --resamples 9",
    "ablate": "ablate runs/a words.csv --resamples 9",
    "attribute": "attribute runs/a words.csv",
    "patch": "patch runs/a bistro-pairs:test --resamples 9",
    "steer": "steer runs/a bistro:test --limit 9 --resamples 9",
    "faithfulness": "faithfulness runs/a words.csv --map attention --resamples 9",
    "compare": "compare runs/a runs/b words.csv",
    "gates": "gates conoscope-a-bistro-test",
    "corpus": "corpus reviews.csv --text review --label mood",
    "list": "list corpora",
    "merge": "merge conoscope-a-bistro-test -o merged",
}


def test_every_command_that_prints_a_table_prints_json_and_nothing_else(run: Run) -> None:
    assert {name for name, command in COMMANDS.items() if command.as_json} == {*TABLES, "demo", "reproduce"}
    for name, line in TABLES.items():
        code, out, err = run(f"conoscope {line} --json --quiet")
        assert (code, err) == (0, ""), name
        assert json.loads(out), name
    for what in ("measures", "maps", "figures", "corpora", "presets", "studies"):
        assert json.loads(run(f"conoscope list {what} --json")[1])
    every = json.loads(run("conoscope measure runs/a bistro:test --limit 9 --json --tables")[1])["tables"]
    assert {"site", "layer", "value"} <= every["sim"][0].keys()


def test_quiet_leaves_results_and_errors(run: Run) -> None:
    code, out, err = run("conoscope measure runs/a plain.tsv --quiet -m sim")
    assert (code, err) == (0, "")
    assert "by layer" in out
    assert run("conoscope measure runs/a nowhere --quiet")[2].startswith("conoscope: no corpus 'nowhere'")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_and_no_default_of_none(name: str, run: Run) -> None:
    code, out, _ = run(f"conoscope {name} --help")
    assert code == 0
    assert f"example: conoscope {name}" in out
    assert not any(f"(default: {nothing}" in " ".join(out.split()) for nothing in ("None", "False", "True", "[]", "{}", "("))


def test_bash_completes_commands_options_and_choices(run: Run, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "c.sh").write_text(run("conoscope completion bash")[1], encoding="utf-8")
    assert subprocess.run(["bash", "-n", "c.sh"], cwd=tmp_path, check=False).returncode == 0

    def completed(*words: str) -> list[str]:
        typed = " ".join(f"'{word}'" for word in ("conoscope", *words))
        script = f"source c.sh; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _conoscope; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, check=True, encoding="utf-8"
        ).stdout.split()

    assert completed("mea") == ["measure"]
    assert completed("measure", "runs/a", "--lab") == ["--label", "--label-names"]
    assert completed("list", "pre") == ["presets"]
    assert completed("measure", "runs/a", "imd") == ["imdb"]
    assert completed("measure", "runs/a", "imdb:t") == ["imdb:train", "imdb:test"]
    assert completed("measure", "runs/a", "imdb:test", "--limit", "") == []
    assert completed("measure", "runs/a", "-m", "attention_en") == ["attention_entropy"]
    assert set(completed("explain", "runs/a", "--map", "roll")) > {"rollout", "rollout_norms"}
    assert completed("measure", "runs/a", "--pool", "") == ["first", "last", "mean"]
    assert "c.sh" in completed("measure", "runs/a", "-o", "")
    assert completed("train", "bistro", "--preset", "pure") == ["pure-attention"]
    assert "fosse-table-1" in completed("reproduce", "fosse")
    assert "--model" not in completed("plausibility", "--m")
    assert set(completed("")) == set(COMMANDS)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_every_command_and_option(shell: str, run: Run, tmp_path: Path) -> None:
    script = run(f"conoscope completion {shell}")[1]
    assert all(name in script for name in (*COMMANDS, "label-names"))
    if shutil.which(shell):
        (tmp_path / "c").write_text(script, encoding="utf-8")
        assert subprocess.run([shell, "-n", "c"], cwd=tmp_path, check=False).returncode == 0


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "conoscope: stopped\n"),
        (RuntimeError("odd"), 1, "conoscope: this is an error of conoscope, not yours: RuntimeError: odd; please report it\n"),
    ],
)
def test_exit_codes_tell_our_errors_from_an_interrupt(
    error: BaseException, code: int, said: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("conoscope.measuring.pipeline.measure", fails)
    found, out, err = run("conoscope measure runs/a bistro:test")
    assert (found, out) == (code, "")
    assert err.endswith(said)
    assert err.count("\n") == 1 or "Traceback" in err


@pytest.mark.parametrize("out", ["", "-o out"])
def test_an_interrupt_says_that_the_command_goes_on_only_if_something_was_written(
    out: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("conoscope.measuring.pipeline.measure", stops)
    line = f"conoscope measure runs/a bistro:test {out}"
    assert run(line)[2] == "conoscope: stopped\n"
    partial = Path(out.removeprefix("-o ") or "conoscope-a-bistro-test", "partial")
    partial.mkdir(parents=True)
    (partial / "provenance.json").write_text("{}", encoding="utf-8")
    assert run(line)[2] == "conoscope: stopped; the same command goes on from there\n"


# Progress


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_within_two_seconds_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Activity("loading"):
        doing("loading a\x1b[2Jmodel")
        time.sleep(1.9)
        assert "loading a\\x1b[2Jmodel … 1 s" in shown.getvalue()
        say("a line", error=True)
    assert "\r\x1b[Ka line\n" in shown.getvalue()
    assert shown.getvalue().endswith(("\x1b[K", "a line\n"))


def test_elsewhere_a_line_comes_every_thirty_seconds_and_none_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert terminal.EVERY == 30
    with Activity("loading"):
        time.sleep(0.7)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(terminal, "EVERY", 0.2)
    with Activity("loading"):
        doing("reading the sums")
        time.sleep(0.7)
    assert "reading the sums, 0 s so far\n" in capsys.readouterr().err
    with Activity("measuring"), Progress(9, True) as progress:
        progress.advance(3)
        time.sleep(0.7)
    assert "measured 3 of 9 examples in" in capsys.readouterr().err
    with speaking(quiet=True), Activity("measuring", shown=False), Progress(9, True) as progress:
        progress.advance(3, 5)
        time.sleep(0.7)
    assert capsys.readouterr().err == ""


def test_training_on_a_terminal_shows_lines_and_no_dictionaries_of_the_trainer(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run(f"conoscope train reviews.csv --text review --label mood -o runs/mine {TINY}")
    assert code == 0
    assert "epoch 1: validation loss" in err
    assert "epoch 1: trained" in err
    assert not any(piece in out + err for piece in ("{", "'loss'", "eval_", "train_runtime"))
