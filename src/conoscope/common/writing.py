"""Atomic writes: every file is complete or absent, and every text is UTF-8 in any locale.

A file is first written beside its target and then replaces it in one step. After an error or a killed run, the old file is
still there.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from conoscope.common.errors import ConoscopeError, OutputError

BESIDE = ".conoscope-"
"""Prefix of the names of temporary files."""
TORCH_WRITES = ("PytorchStreamWriter", "inline_container", "iostream error")
"""Words of the errors with which torch says that it cannot write."""


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside the target, with its suffix; on exit the file replaces the target, on failure it is removed.

    >>> with atomic("table.csv") as temporary:
    ...     frame.to_csv(temporary)
    """
    # A symbolic link stays: the file that it points to is replaced.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        # A device or a pipe, such as /dev/null, holds no data to protect and must not be replaced.
        yield target
        return
    temporary = target.with_name(f"{BESIDE}{secrets.token_hex(8)}{target.suffix[:16]}")
    try:
        temporary.touch()
        usual = temporary.stat().st_mode
        yield temporary
        _flush(temporary)
        # Some libraries write a file of their own, which nobody else may read, and put it in place of ours.
        temporary.chmod(stat.S_IMODE(target.stat().st_mode if target.is_file() else usual))
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_text(path: str | Path) -> Iterator[TextIO]:
    """An open UTF-8 text file that replaces the target on exit; line ends are written unchanged."""
    # What is not a character (half of an emoji, a byte of a file name) is escaped, as in JSON.
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        yield file


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8, atomically."""
    with atomic_text(path) as file:
        file.write(text)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside the target; on exit it replaces the target, on failure it is removed.

    A run may be killed between any two of these steps: `recover_folder` completes them.
    """
    recover_folder(path)
    temporary, before = _beside(path)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    if path.exists():
        path.rename(before)
    temporary.rename(path)
    shutil.rmtree(before, ignore_errors=True)


def recover_folder(path: Path) -> None:
    """Put the last whole folder that `atomic_folder` wrote in its place, and remove what it left beside it."""
    temporary, before = _beside(path)
    if before.exists() and not path.exists():
        # The former folder gives way only to a new one that is whole.
        (temporary if temporary.exists() else before).rename(path)
    for left in (temporary, before):
        shutil.rmtree(left, ignore_errors=True)


def _beside(path: Path) -> tuple[Path, Path]:
    """The names of the new folder before it is in place, and of the former one afterwards."""
    return path.with_name(f"{path.name}.new"), path.with_name(f"{path.name}.old")


def remove_folder(path: Path) -> None:
    """Remove a folder: it is there with all its files, or it is not there."""
    away = path.with_name(f"{BESIDE}{secrets.token_hex(8)}")
    with suppress(OSError):
        path.rename(away)
    shutil.rmtree(away, ignore_errors=True)


@contextmanager
def as_output_error(where: str | Path) -> Iterator[None]:
    """Re-raise what a full disk or a folder without permission causes, in whatever library, as OutputError."""
    try:
        yield
    except ConoscopeError:
        raise
    except Exception as error:
        if (reason := _disk_reason(error)) is None:
            raise
        raise OutputError(f"cannot write to {where}: {reason}; make room there, or give -o another folder") from error


def _disk_reason(error: Exception) -> str | None:
    """What the disk refused; None for an error that is not of writing."""
    if isinstance(error, BrokenPipeError):  # the reader of our output closed it
        return None
    if isinstance(error, OSError):
        return error.strerror or str(error)
    # safetensors and torch write by their own code, whose errors are no OSError.
    said = " ".join(str(error).split()) or type(error).__name__
    known = type(error).__name__ == "SafetensorError" or any(words in said for words in TORCH_WRITES)
    return f"no space is left, or the disk failed ({said})" if known else None


def move_into(folder: Path, paths: Iterable[Path], last: str) -> None:
    """Move files and folders into another folder; the one named `last` moves last, so its presence means that all are there."""
    for path in sorted(paths, key=lambda path: path.name == last):
        path.rename(folder / path.name)


def make_folder(folder: Path) -> Path:
    """Create a folder with its parents, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}; give -o another") from error
    return folder


def usual_modes(folder: Path) -> None:
    """Give the files of a folder that others wrote the mode that files have here: some libraries make them private."""
    usual = folder / f"{BESIDE}{secrets.token_hex(8)}"
    usual.touch()
    mode = stat.S_IMODE(usual.stat().st_mode)
    usual.unlink()
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(mode)


def is_spelt(path: str | Path) -> bool:
    """Whether the locale decodes a file's name as UTF-8 would."""
    try:
        return str(path) == os.fsencode(path).decode("utf-8")
    except UnicodeError:
        return False


def refuse_unspelt(folder: Path) -> None:
    """OutputError for a folder name under which no tokenizer can be saved: tokenizers needs UTF-8, and this locale is not."""
    if not is_spelt(folder):
        raise OutputError(f"no tokenizer can be saved under {folder} in this locale; give -o a plain name, or set PYTHONUTF8=1")


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
