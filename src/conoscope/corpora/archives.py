"""Files in a folder or inside a tar archive; archives are read in place and never unpacked to disk."""

import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path

from conoscope.common.errors import DataError, one_of
from conoscope.common.textfiles import as_data_error
from conoscope.corpora.base import Notes

LARGEST = 1 << 26
"""Maximum size of a text in bytes; a larger member may be an attack."""


def files_in(place: Path, folders: Collection[str], notes: Notes) -> Iterator[tuple[str, str, bytes]]:
    """Folder, name and content of the files directly inside `folders`, which lie in a folder or anywhere in a tar.

    From a folder they are sorted by name; from a tar they come in its order. DataError if one of the folders has no file.
    """
    filled: set[str] = set()
    seen: set[int] = set()
    with as_data_error(place):
        for folder, name, content in _below(place, folders) if place.is_dir() else _in_tar(place, folders):
            if name.startswith("."):  # hidden files, such as those macOS adds beside each file
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
            archive.members.clear()  # type: ignore[attr-defined]  # a TarFile keeps every member it has read
            *_, name = parts = member.name.split("/")
            folder = "/".join(parts[-1 - deep : -1])
            if member.isfile() and folder in folders:
                file = archive.extractfile(member) if member.size <= LARGEST else None
                if file is None:
                    raise DataError(f"{place} cannot be read: {member.name} has {member.size} bytes; fetch it again")
                yield folder, name, file.read()
