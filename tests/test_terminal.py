"""What reaches a terminal: whatever a user or a file is called, it cannot steer it."""

import ast
import io
import json
import shutil
import sys
from pathlib import Path

import pytest

import conoscope
from conoscope.capture.loading import LoadedModel
from conoscope.cli import main
from conoscope.commands import COMMANDS
from conoscope.common.terminal import printable, say

STEERING = "a\x1b[31mred\u202e\x07\x9b2J"
NAME = STEERING if sys.getfilesystemencoding() == "utf-8" else STEERING.encode("ascii", "ignore").decode()
"""As much of it as a file can be called here."""
SOURCE = Path(conoscope.__file__).parent


def steers(text: str) -> bool:
    return any(not (c.isprintable() or c == "\n") for c in text)


def test_say_is_the_only_place_that_prints() -> None:
    """So that no later line can forget to pass through it; the parser of arguments and tqdm print for themselves."""
    for path in SOURCE.rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        prints = [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
        writes = [
            call
            for call in calls
            if isinstance(call, ast.Attribute) and call.attr == "write" and ast.unparse(call.value).startswith("sys.std")
        ]
        assert len(prints) == (path == SOURCE / "common" / "terminal.py"), path
        assert not writes, path


def test_lines_stay_lines_and_the_rest_is_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"one\ttwo\r\n{STEERING}\n")
    printed = capsys.readouterr().out
    assert printed == "one two \na\\x1b[31mred\\u202e\\x07\\x9b2J\n\n"
    assert printable("a\nb") == "a b"


def test_what_a_terminal_cannot_show_is_spelled_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    say("café …")
    ascii_only.flush()
    assert ascii_only.buffer.getvalue() == b"caf\\xe9 \\u2026\n"  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def steering(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model, a file of texts, results and a record, all under names that would steer a terminal."""
    folder = tmp_path_factory.mktemp("steering") / NAME
    folder.mkdir()
    named = shutil.copytree(model, folder / NAME)
    texts = folder / f"{NAME}.csv"
    rows = "".join(f'the soup was {word},{label},"0 0 0 1"\n' for word, label in (("cold", "negative"), ("good", "positive")) * 4)
    texts.write_text(f"text,label,{STEERING}\n{rows}", encoding="utf-8")
    record = folder / f"{NAME}.json"
    record.write_text(json.dumps({"study": STEERING}), encoding="utf-8")
    assert main(["measure", str(named), str(texts), "-o", str(folder / "out"), "-m", "sim", "-m", "gates"]) == 0
    return {"folder": folder, "model": named, "texts": texts, "out": folder / "out", "record": record}


def commands(at: dict[str, Path]) -> dict[str, list[list[object]]]:
    """Of every command a call that succeeds where that is quick, and calls that are refused."""
    folder, model, texts, out = at["folder"], at["model"], at["texts"], at["out"]
    columns = ["--rationale", STEERING]
    return {
        "demo": [["-o", texts]],
        "train": [
            [texts, "-o", folder / "trained", "--layers", "1", "--width", "8", "--epochs", "1"],
            [NAME, "-o", folder / "x"],
            [texts, "-o", folder / "y", "--from", NAME],
            [texts, "-o", folder / "z", "--preset", NAME],
        ],
        "measure": [
            [model, texts, "-m", "sim", "-o", folder / f"new-{NAME}"],
            [model, texts, "-m", NAME],
            [model, texts, "-m", f"sim:{NAME}=1"],
            [NAME, texts],
            [model, NAME],
            [model, texts, "--text", NAME + "x"],
            [model, texts, "-o", texts],
            [model, texts, "--device", NAME],
            [model, texts, "--dtype", NAME],
        ],
        "merge": [
            [out, "-o", folder / f"whole-{NAME}"],
            [folder / NAME, "-o", folder / "nothing"],
            [out, out, "-o", folder / "x"],
        ],
        "explain": [
            [model, "--words", NAME],
            [model, texts, "-o", folder / f"{NAME}.jsonl"],
            [model, texts, "--map", NAME, "-o", "x"],
        ],
        "plausibility": [
            [model, texts, *columns, "--resamples", "2", "-o", folder / f"judged-{NAME}"],
            [texts, "--scores", folder / f"{NAME}.txt"],
            [texts, "--binary", NAME],
        ],
        "faithfulness": [
            [model, texts, "--resamples", "2", "-o", folder / f"faith-{NAME}"],
            [model, texts, "--erase", NAME],
        ],
        "ablate": [
            [model, texts, "--resamples", "2", "-o", folder / f"ablated-{NAME}"],
            [model, texts, "--how", NAME],
            [model, texts, "--measured", folder / NAME],
        ],
        "attribute": [
            [model, texts, "-o", folder / f"attributed-{NAME}"],
            [model, texts, "--texts", NAME],
            [NAME, texts],
        ],
        "patch": [
            [model, "--from", f"the {NAME} was good", "--to", f"the {NAME} was bad", "-o", folder / f"patched-{NAME}"],
            [model, "--from", NAME, "--to", f"{NAME} {NAME}"],
            [model, texts, "--site", NAME],
            [model, texts],
        ],
        "steer": [
            [model, texts, "--directions", texts, "--resamples", "2", "-o", folder / f"steered-{NAME}"],
            [model, texts, "--directions", NAME],
            [model, texts, "--layer", "9"],
        ],
        "compare": [[model, model, texts, "-o", folder / f"{NAME}-scores.csv"], [NAME, texts], [NAME]],
        "report": [
            [f"{NAME}={out}", "-o", folder / f"{NAME}.html", "--title", NAME],
            [NAME],
            [out, "-o", NAME],
        ],
        "explore": [
            [out, "--corpus", texts, "--words", NAME, "--export", folder / f"live-{NAME}.html"],
            [folder / NAME, "--export", "x.html"],
            [model, "--corpus", NAME, "--export", "x.html"],
            [model, "--words", "", "--port", NAME],
        ],
        "figure": [["sim", out, "-o", folder / f"{NAME}.json"], [NAME, out, "-o", "x.svg"], ["sim", out, "-o", NAME]],
        "gates": [
            [out],
            [folder / NAME],
            [out, "--threshold", f"{NAME}=1"],
            [out, "--threshold", f"open.entropy={NAME}"],
        ],
        "corpus": [[texts, "--samples", "3"], [NAME], [texts, "--vectors", NAME]],
        "fetch": [[NAME], ["sarscov2", "--data-dir", NAME]],
        "reproduce": [[NAME], ["fosse-table-1", "--record", at["record"]], ["fosse-table-1", "--quick", "-o", texts]],
        "list": [[NAME]],
        "completion": [["bash"], [NAME]],
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_lets_a_name_steer_the_terminal(
    command: str, steering: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    for arguments in commands(steering)[command]:
        try:
            code = main([command, *map(str, arguments)])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        said = capfd.readouterr()
        assert code in (0, 2), arguments
        assert said.out or said.err
        assert not steers(said.out + said.err), arguments


@pytest.mark.parametrize(
    "arguments", [["measure", "m", STEERING, STEERING], [STEERING], ["measure", f"--{STEERING}"], ["merge", "a"]]
)
def test_the_parser_of_arguments_repeats_nothing_that_steers(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert not steers(capsys.readouterr().err)
    with pytest.raises(SystemExit):
        main([*arguments, "x" * 100_000, "y" * 100_000])
    assert len(capsys.readouterr().err) < 10_000


LONG = "x" * 50_000


def test_no_command_prints_the_whole_of_a_long_name(
    pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, model, out = tmp_path / "texts.csv", tmp_path / "model", tmp_path / "out"
    texts.write_text(f"text,label\nthe soup was cold,{LONG}\n{LONG},{LONG}2\ngood wine,{LONG}\n", encoding="utf-8")
    pure.module.save_pretrained(model)
    pure.tokenizer.save_pretrained(model)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    named = {"id2label": {"0": LONG, "1": f"{LONG}2"}, "label2id": {LONG: 0, f"{LONG}2": 1}}
    (model / "config.json").write_text(json.dumps({**config, **named}), encoding="utf-8")
    for arguments in (
        ["measure", model, texts, "-o", out, "-m", "class_cones", "-m", "gates", "--kind", f"{LONG}=soup", "-m", "mixing"],
        ["corpus", texts],
        ["compare", model, texts],
        ["explain", model, "--words", LONG, "--map", "attention"],
        ["faithfulness", model, texts, "--map", "attention", "--resamples", "2"],
        ["train", texts, "-o", tmp_path / "trained", "--epochs", "1", "--layers", "1", "--width", "8"],
        ["report", f"{LONG}={out}", "-o", tmp_path / "page.html", "--title", LONG],
        ["figure", "class-cones", out, "-o", tmp_path / "figure.svg"],
        ["gates", out],
    ):
        assert main([str(argument) for argument in arguments]) in (0, 2)
        said = capsys.readouterr()
        assert len(said.out + said.err) < 40_000, arguments[0]
        assert not steers(said.out + said.err)
