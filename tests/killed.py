"""Processes that die, or whose disk refuses, at the n-th change of a file: a shim over what Python calls to change files."""

import builtins
import errno
import io
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from conoscope.causes import saved
from conoscope.cli import main
from conoscope.measuring import checkpoint

DIED = 86
"""The exit code of a process that the shim ended."""
CALLS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "truncate", "ftruncate", "fsync", "chmod", "pwrite")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Changes:
    """Counts the changes of files under a folder; `at` is called before the change with the number `number`, counted from 1."""

    def __init__(self, under: Path, number: int | None, at: Callable[[str], None]) -> None:
        self.under, self.number, self.at, self.count = os.path.realpath(under), number, at, 0
        self.log: list[str] = []

    def __call__(self, what: str, path: Any) -> None:
        if not self._is_under(path):
            return
        self.count += 1
        self.log.append(f"{what} {path}")
        if self.count == self.number:
            self.at(self.log[-1])

    def _is_under(self, path: Any) -> bool:
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        return os.path.realpath(os.fspath(path)).startswith(self.under)


def end_here(_: str) -> None:
    """Die as by SIGKILL: nothing that would tidy up runs."""
    os._exit(DIED)


def no_space(what: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what.partition(" ")[2])


@contextmanager
def watching(changes: Changes, after_opening: bool = True) -> Iterator[None]:
    """Context manager in which the changes of files are counted: before each, and after a file was opened to be written."""
    before: list[tuple[Any, str, Any]] = []

    def patch(module: Any, name: str, function: Any) -> None:
        before.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            at = path
            if (folder := kwargs.get("dir_fd")) is not None:
                at = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
            changes(name, at)
            return real(path, *args, **kwargs)

        return call

    real_open, real_low = io.open, os.open

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = bool(set("wax+") & set(mode))
        if writes and not isinstance(file, int):
            changes("open", file)
        found = real_open(file, mode, *args, **kwargs)
        if writes and after_opening and not isinstance(file, int):
            changes("opened", file)
        return found

    def low(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & WRITES:
            changes("open", path)
        return real_low(path, flags, *args, **kwargs)

    for name in CALLS:
        patch(os, name, counted(name, getattr(os, name)))
    patch(os, "open", low)
    patch(io, "open", opened)
    patch(builtins, "open", opened)
    try:
        yield
    finally:
        for module, name, function in reversed(before):
            setattr(module, name, function)


def in_child(work: Callable[[], int], told: Path | None = None) -> int:
    """The exit code of some work in a forked process; what it prints goes to the file `told`."""
    if "vl_convert" in sys.modules:
        # Its threads do not come along, and the child would wait for them.
        pytest.skip("this process has drawn figures and cannot be forked; make test runs these tests in processes of their own")
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        torch.set_num_threads(1)
        output = os.open(os.devnull if told is None else told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(os.fdopen(number, "wb", 0, closefd=False), "utf-8", write_through=True) for number in (1, 2)
        )
        code = work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
    except BaseException:
        os.write(output, traceback.format_exc().encode())
    finally:
        os._exit(code)


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
        shutil.copytree(self.begin, here)
        if "report" in self.words:
            (here / "out").mkdir()
        return here

    def changes(self) -> list[str]:
        """What the command changes, in order; its files are those that others must equal."""
        here, log = self.fresh(), self.tmp / "log"

        def work() -> int:
            changes = Changes(here / "out", None, end_here)
            with watching(changes):
                code = run(self.words, here)
            log.write_text("\n".join(changes.log), encoding="utf-8")
            return code

        assert in_child(work, self.tmp / "told") == 0, (self.tmp / "told").read_text(encoding="utf-8")
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
            return f"exit code {code}: {(self.tmp / 'told').read_text(encoding='utf-8')}; left: {left}"
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


def begun(folder: Path, model: Path) -> Path:
    """The folder with texts, a model, and two measured and ablated shards; made by a process of its own."""
    shutil.copytree(model, folder / "model")
    (folder / "texts.csv").write_text(TEXTS, encoding="utf-8")
    made = subprocess.run([sys.executable, __file__, str(folder)], capture_output=True, encoding="utf-8", check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def _begin(folder: Path) -> int:
    torch.set_num_threads(1)
    given = ["model", "texts.csv", "--label", "label"]
    codes = [run(["measure", *given, "-o", f"part-{n}", "--shard", f"{n}/2", "-m", "sim"], folder) for n in (1, 2)]
    codes += [run(["ablate", *given, "-o", f"ablated-{n}", "--shard", f"{n}/2", "--resamples", "9"], folder) for n in (1, 2)]
    return max(codes)


COMMANDS = {
    "measure": "measure model texts.csv --label label -o out -m sim -m class_cones --batch-size 1",
    "ablate": "ablate model texts.csv --label label -o out --resamples 9 --batch-size 2 --how zero",
    "merge": "merge part-1 part-2 -o out",
    "merge-ablated": "merge ablated-1 ablated-2 -o out",
    "report": "report part-1 -o out/report.html",
    "train": "train bistro -o out --limit 24 --epochs 2 --layers 1 --width 8 --device cpu",
}

if __name__ == "__main__":
    sys.exit(_begin(Path(sys.argv[1])))
