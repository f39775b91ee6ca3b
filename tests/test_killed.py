"""A run that dies at any change of a file is done again by the same command, with the same digits."""

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conoscope.causes import saved
from conoscope.cli import main
from conoscope.measuring import checkpoint
from killed import DIED, Changes, end_here, in_child, watching

TEXTS = """text,label
the soup was cold,negative
we loved the bread,positive
no soup today,negative
good wine and good bread,positive
the waiter was rude and slow,negative
a good place,positive
"""
NUMBERS = (".csv", ".safetensors", ".html")
"""The endings of files that must have the same bytes."""


def run(words: list[str], folder: Path) -> int:
    """A command in a folder, in this process."""
    import os

    os.chdir(folder)
    checkpoint.EVERY = saved.EVERY = 0.0
    sys.argv = ["conoscope", *words]
    return main(words)


def digits(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in NUMBERS and not path.name.startswith(LEFT)
    }


LEFT = (".conoscope-", "partial", "checkpoints")
"""How the names of files begin that only runs under way have."""


@dataclass
class Killed:
    """A command, and a folder in which it can be given as often as one likes."""

    words: list[str]
    begin: Path
    tmp: Path

    def fresh(self) -> Path:
        here = self.tmp / "here"
        shutil.rmtree(here, ignore_errors=True)
        return Path(shutil.copytree(self.begin, here))

    def changes(self) -> list[str]:
        """What the command changes, in order; its files are those that others must equal."""
        here, log = self.fresh(), self.tmp / "log"

        def work() -> int:
            changes = Changes(here / "out", None, end_here)
            with watching(changes):
                code = run(self.words, here)
            log.write_text("\n".join(changes.log), encoding="utf-8")
            return code

        assert in_child(work, self.tmp / "told") == 0, (self.tmp / "told").read_text()
        shutil.rmtree(self.tmp / "expected", ignore_errors=True)
        shutil.copytree(here, self.tmp / "expected")
        return log.read_text(encoding="utf-8").splitlines()

    def die_at(self, number: int) -> str | None:
        """Die at a change, and give the command again; what is wrong with it then, None if nothing is."""
        here = self.fresh()

        def work() -> int:
            with watching(Changes(here / "out", number, end_here)):
                return run(self.words, here)

        if in_child(work) != DIED:
            return "it did not die"
        left = sorted(str(path.relative_to(here)) for path in here.rglob("*") if "model" not in path.parts)
        if (code := in_child(lambda: run(self.words, here), self.tmp / "told")) != 0:
            return f"exit code {code}: {(self.tmp / 'told').read_text()}; left: {left}"
        found, expected = digits(here), digits(self.tmp / "expected")
        if found.keys() != expected.keys():
            return f"other files: {sorted(found.keys() ^ expected.keys())}"
        if others := [name for name in found if found[name] != expected[name]]:
            return f"other digits in {others}"
        # Beside a single file, in a folder that may be anybody's, a hidden one stays.
        over = [path.name for path in here.rglob("*") if path.name.startswith(LEFT)]
        if over and "report" not in self.words:
            return f"left over: {over}"
        return None


@pytest.fixture(scope="module")
def begin(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, a model, and two measured, ablated and attributed shards."""
    folder = tmp_path_factory.mktemp("begin")
    shutil.copytree(model, folder / "model")
    (folder / "texts.csv").write_text(TEXTS, encoding="utf-8")

    def work() -> int:
        given = ["model", "texts.csv", "--label", "label"]
        codes = [run(["measure", *given, "-o", f"part-{n}", "--shard", f"{n}/2", "-m", "sim"], folder) for n in (1, 2)]
        codes += [run(["ablate", *given, "-o", f"ablated-{n}", "--shard", f"{n}/2", "--resamples", "9"], folder) for n in (1, 2)]
        return max(codes)

    assert in_child(work, folder / "told") == 0, (folder / "told").read_text()
    (folder / "told").unlink()
    return folder


COMMANDS = {
    "measure": "measure model texts.csv --label label -o out -m sim -m class_cones --batch-size 1",
    "ablate": "ablate model texts.csv --label label -o out --resamples 9 --batch-size 2 --how zero",
    "merge": "merge part-1 part-2 -o out",
    "merge-ablated": "merge ablated-1 ablated-2 -o out",
    "report": "report part-1 -o out/report.html",
    "train": "train bistro -o out --limit 24 --epochs 2 --layers 1 --width 8 --device cpu",
}
FEW = 5
"""How many deaths of each command `make test` tries."""


@pytest.fixture
def killed(request: pytest.FixtureRequest, begin: Path, tmp_path: Path) -> Killed:
    name = request.param
    if name == "report":
        (begin / "out").mkdir(exist_ok=True)
    elif (begin / "out").exists():
        (begin / "out").rmdir()
    return Killed(COMMANDS[name].split(), begin, tmp_path)


def tried(killed: Killed, chosen: Callable[[int], Iterator[int] | range]) -> list[str]:
    log = killed.changes()
    failed = []
    for number in chosen(len(log)):
        if (wrong := killed.die_at(number)) is not None:
            failed.append(f"{number} of {len(log)}, {log[number - 1]}: {wrong}")
    return failed


@pytest.mark.parametrize("killed", COMMANDS, indirect=True)
def test_the_same_command_after_some_deaths_gives_the_same_digits(killed: Killed) -> None:
    assert not tried(killed, lambda count: range(3, count + 1, max(1, count // FEW)))


@pytest.mark.slow
@pytest.mark.parametrize("killed", COMMANDS, indirect=True)
def test_the_same_command_after_any_death_gives_the_same_digits(killed: Killed) -> None:
    assert not tried(killed, lambda count: range(1, count + 1))
