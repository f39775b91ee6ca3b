"""Reading text files: plain, gzip or inside a zip; with a byte-order mark, or with bytes that are not UTF-8."""

import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from conoscope.common.errors import DataError

REPLACED = "bytes that are not UTF-8, replaced"
_ESCAPED = re.compile(r"[\udc80-\udcff]+")


def lines(path: Path, notes: Counter[str], member: str = "") -> Iterator[str]:
    """The lines of a file (or of a zip's member) with their line ends, as the csv module needs them."""
    with (
        as_data_error(path),
        _opened(path, member) as file,
        io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as text,
    ):
        for line in text:
            yield repaired(line, notes)


def whole(path: Path, notes: Counter[str]) -> str:
    """The whole text of a file."""
    with as_data_error(path), _opened(path, "") as file:
        return decoded(file.read(), notes)


def decoded(content: bytes, notes: Counter[str]) -> str:
    """The bytes decoded as text; invalid UTF-8 is replaced and counted in `notes`."""
    return repaired(content.decode("utf-8-sig", "surrogateescape"), notes)


def repaired(text: str, notes: Counter[str]) -> str:
    """The text with bytes that were not UTF-8 replaced and counted in `notes`, so that it can be encoded again."""
    escaped = 0 if text.isascii() else sum(map(len, _ESCAPED.findall(text)))
    if not escaped:
        return text
    notes[REPLACED] += escaped
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def readable(name: str) -> str:
    """A name from the command line or the disk as text: bytes that the locale could not decode are decoded as UTF-8."""
    return _ESCAPED.sub(lambda run: run[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), name)


@contextmanager
def _opened(path: Path, member: str) -> Iterator[IO[bytes]]:
    if member:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            yield file
    else:
        with path.open("rb") as file:
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if path.suffix.lower() == ".gz" else file


def is_there(path: Path, folder: bool = False) -> bool:
    """Whether a file (or a folder) of this name exists; False for a name that no file can have."""
    try:
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):
        return False


BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, KeyError, ValueError, RuntimeError)
"""What disks and broken archives raise; an unknown compression raises RuntimeError."""


@contextmanager
def as_data_error(path: Path) -> Iterator[None]:
    """Re-raise I/O errors and errors of broken archives as DataError."""
    try:
        yield
    except BROKEN as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{path} cannot be read: {reason}; check the file and its permissions, or fetch it again") from error
