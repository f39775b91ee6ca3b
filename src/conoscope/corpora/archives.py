"""Files below a folder, or inside a tar that is read in place: nothing is ever unpacked to the disk."""

import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path

from conoscope.common.errors import DataError, one_of
from conoscope.common.textfiles import as_data_error
from conoscope.corpora.base import Notes

LARGEST = 1 << 26
"""No text is larger than this; what claims to be is a trap."""


def files_in(place: Path, folders: Collection[str], notes: Notes) -> Iterator[tuple[str, str, bytes]]:
    """Folder, name and content of the files right inside these folders, below a folder or anywhere in a tar.

    Below a folder they come in the order of their names; from a tar, in its own. Each folder must have some.
    """
    filled: set[str] = set()
    seen: set[int] = set()
    with as_data_error(place):
        for folder, name, content in _below(place, folders) if place.is_dir() else _in_tar(place, folders):
            if name.startswith("."):  # what a Mac leaves beside each file
                continue
            if (known := hash((folder, name))) in seen:
                notes["files of a name that was there before, left out"] += 1
                continue
            seen.add(known)
            filled.add(folder)
            yield folder, name, content
    if empty := set(folders) - filled:
        raise DataError(f"{place} has no files in {one_of(empty)}; it is not whole, fetch it again")


def _below(place: Path, folders: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    for folder in folders:
        for path in sorted((place / folder).iterdir() if (place / folder).is_dir() else ()):
            if path.is_file():
                yield folder, path.name, path.read_bytes()


def _in_tar(place: Path, folders: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    deep = next(iter(folders)).count("/") + 1
    with tarfile.open(place, "r|*") as archive:
        for member in archive:
            archive.members.clear()  # type: ignore[attr-defined]  # a TarFile remembers all that it has passed
            *_, name = parts = member.name.split("/")
            folder = "/".join(parts[-1 - deep : -1])
            if member.isfile() and folder in folders:
                file = archive.extractfile(member) if member.size <= LARGEST else None
                if file is None:
                    raise DataError(f"{place} cannot be read: {member.name} has {member.size} bytes; fetch it again")
                yield folder, name, file.read()
