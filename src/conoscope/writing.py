"""Writing: every file of ours is there whole or not at all, and every text is UTF-8, whatever the locale.

What is written comes to lie beside the target first and takes its place at once: an error, or a run that is killed, leaves what
was there before.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from conoscope.errors import OutputError

BESIDE = ".conoscope-"
"""How the names of what is not yet in its place begin."""


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A path beside the target, with its ending, for a file that takes the target's place in the end; removed on failure.

    >>> with atomic("table.csv") as beside:
    ...     frame.to_csv(beside)
    """
    # A link stays one: what it leads to is replaced.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        # A device or a pipe, such as /dev/null, has nothing to lose and must not be replaced.
        yield target
        return
    beside = target.with_name(f"{BESIDE}{secrets.token_hex(8)}{target.suffix[:16]}")
    try:
        yield beside
        _flush(beside)
        if target.is_file():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def atomic_text(path: str | Path) -> Iterator[TextIO]:
    """An open text file in UTF-8, with line ends as they are given, that takes the target's place in the end."""
    # What is no character (half of an emoji, a byte of a file's name) is spelled out, as JSON does it.
    with atomic(path) as beside, beside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        yield file


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8."""
    with atomic_text(path) as file:
        file.write(text)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside the target that takes its place in the end; removed on failure."""
    beside = path.with_name(f"{path.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        shutil.rmtree(path, ignore_errors=True)
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def move_into(folder: Path, paths: Iterable[Path], last: str) -> None:
    """Move files and folders into another folder, and in the end the one of this name, which says that all are there."""
    for path in sorted(paths, key=lambda path: path.name == last):
        path.rename(folder / path.name)


def make_folder(folder: Path) -> Path:
    """The folder, made with those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}; give -o another") from error
    return folder


def is_spelt(path: str | Path) -> bool:
    """Whether the locale reads the name of a file as UTF-8 would."""
    try:
        return str(path) == os.fsencode(path).decode("utf-8")
    except UnicodeError:
        return False


def refuse_unspelt(folder: Path) -> None:
    """Refuse a folder whose name a tokenizer could not be saved under: it takes UTF-8, and an ASCII locale has none."""
    if not is_spelt(folder):
        raise OutputError(f"no tokenizer can be saved under {folder} in this locale; give -o a plain name, or set PYTHONUTF8=1")


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
