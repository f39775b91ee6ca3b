"""Every file is written whole or not at all, by one module, and every text is UTF-8 whatever the locale."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest

from conoscope.cli import main
from conoscope.common.errors import OutputError
from conoscope.common.textfiles import readable
from conoscope.common.writing import BESIDE, atomic, atomic_folder, atomic_text, refuse_unspelt, write_text

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "conoscope"
EVERY = sorted(path for folder in (SOURCE, ROOT / "tests", ROOT / "benchmarks") for path in folder.rglob("*.py"))
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
BYTES = {"archive", "tarfile", "zipfile", "os", "gzip"}
"""What has an `open` that reads bytes."""
WRITES = {"write_text", "write_bytes", "to_parquet", "write_table", "save_file", "save_pretrained", "savefig", "tofile", "dump"}
ELSEWHERE = {
    # Into a folder of the Trainer's that is moved into place once it is whole, and into a temporary one.
    ("training/finishing.py", "save_pretrained"),
    ("studies/checkpoints.py", "save_pretrained"),
    ("studies/added_words.py", "save_pretrained"),
}


def called(node: ast.Call) -> tuple[str, str]:
    """The name of what is called, and what it is an attribute of, where that has a name."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr, node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    return node.func.id if isinstance(node.func, ast.Name) else "", ""


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))


def mode_of(node: ast.Call, of: str) -> str:
    """The mode of a call of open: the second argument of the function, the first of the method."""
    at = 0 if isinstance(node.func, ast.Attribute) and of != "io" else 1
    given = [*node.args[at : at + 1], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    return str(given[0].value) if given and isinstance(given[0], ast.Constant) else "r"


def unspecified(path: Path) -> list[str]:
    """The calls that read or write text in whatever encoding the locale has."""
    found = []
    for node in calls(path):
        name, of = called(node)
        given = {keyword.arg for keyword in node.keywords}
        text = name == "read_text" or (name == "write_text" and isinstance(node.func, ast.Attribute))
        text |= name == "open" and of not in BYTES and "b" not in mode_of(node, of)
        text |= name in ("run", "Popen", "check_output") and bool(given & {"text", "universal_newlines"})
        text |= name == "TextIOWrapper" and len(node.args) < 2
        if text and "encoding" not in given and None not in given:
            found.append(f"{path.name}:{node.lineno}: {name}")
    return found


def writes(node: ast.Call) -> bool:
    """Whether a call writes, or moves, a file."""
    name, of = called(node)
    given = {keyword.arg for keyword in node.keywords}
    return (
        (name in WRITES and not (name == "write_text" and isinstance(node.func, ast.Name)))
        or (name == "open" and of not in BYTES - {"os"} and bool(set("wax+") & set(mode_of(node, of))))
        or (name in ("to_csv", "to_json", "to_html", "to_string") and (bool(node.args) or bool(given & {"path_or_buf", "buf"})))
        or (name == "replace" and (of == "os" or len(node.args) == 1) and isinstance(node.func, ast.Attribute) and not given)
        or (name == "rename" and (of == "os" or bool(node.args)))
        or (name in ("move", "copy", "copyfile", "copytree") and of == "shutil")
        or (name == "save" and of in ("np", "torch", "on_white"))
    )


def loose(path: Path, source: Path = SOURCE) -> list[str]:
    """The writes of a module that are not within `atomic` or one of its kind."""
    found: list[str] = []
    module = path.relative_to(source).as_posix()

    def visit(node: ast.AST, within: bool) -> None:
        if isinstance(node, ast.With):
            entered = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            within = within or any(called(entry)[0].startswith("atomic") for entry in entered)
        if isinstance(node, ast.Call) and writes(node) and not within and (module, called(node)[0]) not in ELSEWHERE:
            found.append(f"{module}:{node.lineno}: {called(node)[0]}")
        for child in ast.iter_child_nodes(node):
            visit(child, within)

    visit(ast.parse(path.read_text(encoding="utf-8")), within=False)
    return found


def test_all_text_names_its_encoding() -> None:
    assert [line for path in EVERY for line in unspecified(path)] == []


def test_all_writes_go_through_one_module() -> None:
    assert [line for path in EVERY if path.is_relative_to(SOURCE) and path.name != "writing.py" for line in loose(path)] == []


@pytest.mark.parametrize(
    ("code", "unnamed", "written"),
    [
        ("p.read_text()", 1, 0),
        ("p.read_text(encoding='utf-8')", 0, 0),
        ("p.write_text('x')", 1, 1),
        ("p.open('w', encoding='utf-8')", 0, 1),
        ("p.open('rb')", 0, 0),
        ("open(p)", 1, 0),
        ("open(p, 'ab')", 0, 1),
        ("with atomic(p) as b, b.open('wb') as f: pass", 0, 0),
        ("with atomic(p) as b:\n    frame.to_csv(b)", 0, 0),
        ("frame.to_csv(p)", 0, 1),
        ("frame.to_csv(index=False)", 0, 0),
        ("write_text(p, frame.to_csv())", 0, 0),
        ("p.replace(q)", 0, 1),
        ("'a'.replace('b', 'c')", 0, 0),
        ("p.rename(q)", 0, 1),
        ("frame.rename(columns={})", 0, 0),
        ("os.replace(p, q)", 0, 1),
        ("json.dump(x, f)", 0, 1),
        ("pq.write_table(t, p)", 0, 1),
        ("subprocess.run(c, text=True)", 1, 0),
    ],
)
def test_what_is_looked_for_is_found(code: str, unnamed: int, written: int, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(code, encoding="utf-8")
    assert len(unspecified(tmp_path / "module.py")) == unnamed
    assert len(loose(tmp_path / "module.py", tmp_path)) == written


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "é\r\n\ud83d 🍞\n")
    assert target.read_bytes() == "é\r\n\\ud83d 🍞\n".encode()
    target.chmod(0o640)
    with pytest.raises(TypeError), atomic_text(target) as file:
        file.writelines(["half", 1])
    assert target.read_bytes() == "é\r\n\\ud83d 🍞\n".encode()
    write_text(target, "new")
    assert target.stat().st_mode & 0o777 == 0o640
    with pytest.raises(OSError, match="directory"):
        write_text(tmp_path, "a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_links_stay_links_devices_stay_devices_and_long_names_fit(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    write_text(real, "old")
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with atomic(pipe) as beside:
        assert beside == pipe
    assert pipe.is_fifo()
    write_text(tmp_path / f"{'a' * 251}.txt", "long")
    with atomic(tmp_path / "chart.svg") as beside:
        assert beside.suffix == ".svg"
        assert beside.parent == tmp_path
        beside.touch()


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "partial"
    with atomic_folder(target) as new:
        write_text(new / "a", "1")
    with pytest.raises(OSError, match="No such"), atomic_folder(target) as new:
        write_text(new / "nowhere" / "a", "2")
    assert (target / "a").read_text(encoding="utf-8") == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["partial"]


def test_names_that_the_locale_could_not_read_are_read_as_utf_8() -> None:
    assert readable("caf\udcc3\udca9 \udcff") == "café \ufffd"
    assert readable("plain \ud83d") == "plain \ud83d"
    refuse_unspelt(Path("plain"))


@pytest.mark.parametrize("torn", ["", '{"model": {'])
def test_what_a_torn_provenance_leaves_is_no_dead_end(
    torn: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["measure", str(model), "bistro:test", "--limit", "2", "-m", "sim", "-o", str(tmp_path)]
    (tmp_path / "provenance.json").write_text(torn, encoding="utf-8")
    (tmp_path / f"{BESIDE}0123.json").write_text("{", encoding="utf-8")
    assert main(command) == 0
    assert json.loads((tmp_path / "provenance.json").read_text(encoding="utf-8"))["measures"] == ["sim"]
    (tmp_path / "provenance.json").write_text(torn, encoding="utf-8")
    capsys.readouterr()
    assert main(command) == 2
    assert "provenance.json is not whole; give -o another folder, or remove this one" in capsys.readouterr().err


@pytest.mark.parametrize("torn", ["", '{"model": {'])
def test_what_a_torn_checkpoint_leaves_says_what_to_do(
    torn: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "provenance.json").write_text(torn, encoding="utf-8")
    assert main(["measure", str(model), "bistro:test", "--limit", "2", "-m", "sim", "-o", str(tmp_path)]) == 2
    assert "partial cannot be read, so the run cannot go on; remove it to begin anew" in capsys.readouterr().err


COMMANDS = """
measure {model} café.csv --label label -o résultats -m sim -m class_cones -m norms -m self_sim -m gates
measure {model} café.csv --label label -o teil-ä1 -m sim --shard 1/2
measure {model} café.csv --label label -o teil-ä2 -m sim --shard 2/2
merge teil-ä1 teil-ä2 -o zusammengefügt
figure sim résultats -o bild-ß.svg
figure sim résultats -o bild-ß.html
figure sim résultats -o bild-ß.json
figure sim résultats -o bild-ß.pdf
figure sim résultats -o bild-ß.png
compare {model} {model} --corpus café.csv --label label -o vergleich-ß.csv
explain {model} café.parquet --label label -o erklärung.jsonl --map attention
explain {model} --words soupé --map attention
plausibility café.parquet --label label --rationale raisön --model {model} --map attention --resamples 2 -o plaü
plausibility café.parquet --rationale raisön --scores erklärung.jsonl --resamples 2 -o plaü-2
faithfulness {model} café.csv --map random --resamples 2 -o faïth
report avant-é=résultats plaü faïth -o bericht-ß.html --title Überschrift
reproduce fosse-table-1 --record rekörd.json --page seité.md
gates résultats
corpus café.csv --label label
corpus café.parquet --label label
train café.csv --label label -o trained --layers 1 --width 8 --heads 1 --epochs 1
measure trained café.csv --label label -m sim
measure modèle café.csv --label label -m sim -o von-modèle
compare modèle --corpus café.csv --label label -o scores-é.csv
train café.csv --label label --from modèle -o trained-again --epochs 1
"""
RUN = """
import json, sys
from conoscope.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["conoscope", *arguments]
    code = main(arguments)
    print(code, arguments[0], file=sys.stderr)
"""


def here(name: str) -> str:
    """The name of a file as the locale of this very run spells it."""
    return os.fsdecode(name.encode())


def test_everything_runs_in_an_ascii_locale(model: Path, tmp_path: Path) -> None:
    few = [
        "the soup was cold – 冷たい,négative",
        "we loved the good bread 🍞,pösitive",
        "cold bread,négative",
        "good soup,pösitive",
    ]
    rows = "\n".join(f"{number} {text}" for number, text in enumerate(few * 10))
    write_text(tmp_path / here("café.csv"), f"text,label\n{rows}\n")
    pd.DataFrame(
        {
            "text": [line.split(",")[0] for line in few],
            "label": [line.split(",")[1] for line in few],
            "raisön": [[1] + [0] * line.count(" ") for line in few],
        }
    ).to_parquet(tmp_path / "plain.parquet")
    (tmp_path / "plain.parquet").rename(tmp_path / here("café.parquet"))
    shutil.copy(ROOT / "results" / "fosse-table-1.json", tmp_path / here("rekörd.json"))
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    named = {**config, "id2label": {"0": "négative", "1": "pösitive"}, "label2id": {"négative": 0, "pösitive": 1}}
    own = tmp_path / "model"
    own.mkdir()
    for path in model.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    write_text(own / "config.json", json.dumps(named, ensure_ascii=False))
    shutil.copytree(own, tmp_path / here("modèle"))
    commands = [line.format(model=own).split() for line in COMMANDS.split("\n") if line]
    # As a shell in that locale would hand the names over: byte by byte.
    raw = [[word.encode().decode("ascii", "surrogateescape") for word in command] for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(raw)], capture_output=True, cwd=tmp_path, env={**os.environ, **ASCII}, check=False
    )
    said = done.stderr.decode("ascii")
    assert "Traceback" not in said, said
    assert [line[0] for line in said.splitlines() if line[1:2] == " "] == ["0"] * len(commands), said
    assert r"n\xe9gative" in done.stdout.decode("ascii")
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".csv", ".md", ".html", ".svg", ".jsonl"):
            text = path.read_text(encoding="utf-8")
            # A name that the locale could not read is written as what it is; what is read again may be as it was given.
            assert path.name == "training.json" or not re.search(r"\\\\?udc[0-9a-f]{2}", text), path.name
    found = json.loads((tmp_path / here("résultats") / "provenance.json").read_text(encoding="utf-8"))
    assert found["corpus"]["name"] == "café.csv"
    assert found["model"]["labels"] == ["négative", "pösitive"]
    assert "café.csv" in found["command"]
    assert set(pd.read_csv(tmp_path / here("résultats") / "class_cones.csv")["class"].dropna()) == {"négative", "pösitive"}
    assert "冷たい" in (tmp_path / here("erklärung.jsonl")).read_text(encoding="utf-8")
    page = (tmp_path / here("bericht-ß.html")).read_text(encoding="utf-8")
    assert all(name in page for name in ("Überschrift", "avant-é", "résultats", "faïth"))
    for link in re.findall(r"\]\(([^)]+svg)\)", (tmp_path / here("seité.md")).read_text(encoding="utf-8")):
        assert (tmp_path / here(unquote(link))).is_file()
    assert set(pd.read_csv(tmp_path / here("scores-é.csv"))["model"]) == {"modèle"}


def test_a_folder_that_no_tokenizer_can_be_saved_under_is_refused_before_training(tmp_path: Path) -> None:
    raw = [["train", "bistro", "-o", "mod\udcc3\udca8le"], ["measure", "mod\udcc3\udca8le", "bistro:test", "-m", "sim"]]
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(raw)], capture_output=True, cwd=tmp_path, env={**os.environ, **ASCII}, check=False
    )
    said = done.stderr.decode("ascii").splitlines()
    assert [line for line in said if line[1:2] == " "] == ["2 train", "2 measure"]
    assert any("give -o a plain name, or set PYTHONUTF8=1" in line for line in said)
    assert list(tmp_path.iterdir()) == []


def test_writing_where_it_cannot_be_is_refused_and_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conoscope.training.comparison import Comparison

    frame = pd.DataFrame({"a": [1]})
    Comparison(frame, frame).save(tmp_path / "scores.csv")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        Comparison(pd.DataFrame({"b": [2]}), frame).save(tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text(encoding="utf-8") == "a\n1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores-pairs.csv", "scores.csv"]
