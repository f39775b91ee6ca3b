"""Files below a folder, or inside a tar that is read in place: nothing is ever unpacked to the disk."""

import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from conoscope.errors import DataError, one_of

LARGEST = 1 << 26
"""No text is larger than this; what claims to be is a trap."""


def files_in(place: Path, folders: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    """Folder, name and content of the files right inside these folders, below a folder or anywhere in a tar.

    Below a folder they come in the order of their names; from a tar, in its own. Each folder must have some.
    """
    empty = set(folders)
    try:
        for folder, name, content in _below(place, folders) if place.is_dir() else _in_tar(place, folders):
            empty.discard(folder)
            yield folder, name, content
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{place} cannot be read: {said}; look at the file, or fetch it again") from error
    if empty:
        raise DataError(f"{place} has no files in {one_of(empty)}; it is not whole, fetch it again")


def _below(place: Path, folders: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    for folder in folders:
        for path in sorted((place / folder).iterdir()):
            if path.is_file():
                yield folder, path.name, path.read_bytes()


def _in_tar(place: Path, folders: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    deep = next(iter(folders)).count("/") + 1
    with tarfile.open(place, "r|*") as archive:
        for member in archive:
            *_, name = parts = member.name.split("/")
            folder = "/".join(parts[-1 - deep : -1])
            if member.isfile() and folder in folders:
                file = archive.extractfile(member) if member.size <= LARGEST else None
                if file is None:
                    raise DataError(f"{place} cannot be read: {member.name} has {member.size} bytes; fetch it again")
                yield folder, name, file.read()
