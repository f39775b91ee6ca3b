"""Digests of what was written, so that a damaged file is told from a whole one when it is read.

A JSON file carries a digest of its own content under `blake2b`, and those of the files beside it that it describes.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

from conoscope.common.errors import OutputError

DIGEST, FILES = "blake2b", "files"
SIZE = 16
"""Bytes of a digest."""


def sealed(content: Mapping[str, Any], indent: int | None = None, nan: bool = True) -> str:
    """The text of a JSON file with a digest of its content; `nan`: whether NaN is allowed."""
    text = json.dumps({**content, DIGEST: _digest_of(content)}, indent=indent, ensure_ascii=False, allow_nan=nan)
    return f"{text}\n"


def read_sealed(path: Path) -> Any:
    """The content of a JSON file without its digest; OutputError if that is of another content, ValueError for no JSON.

    A file of an earlier version has no digest and is not checked.
    """
    return unsealed(json_of(path), path)


def is_sealed(path: Path) -> bool:
    """Whether a file is a JSON object that carries a digest."""
    try:
        content = json_of(path)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and DIGEST in content


def json_of(path: Path) -> Any:
    """The content of a JSON file; ValueError if it is no JSON, is nested too deeply, or is not a file such as a pipe."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path.name} is not a file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deeply") from error


def unsealed(content: Any, path: Path) -> Any:
    """The content without its digest; OutputError if the digest is of another content."""
    if not isinstance(content, dict) or DIGEST not in content:
        return content
    rest = {name: value for name, value in content.items() if name != DIGEST}
    if content[DIGEST] != _digest_of(rest):
        raise damaged(path)
    return rest


def digest_of(file: BufferedReader) -> str:
    """The digest of the rest of an open file."""
    return hashlib.file_digest(file, _hash).hexdigest()


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The digests of files in a folder, by name."""
    found = {}
    for name in sorted(names):
        with (folder / name).open("rb") as file:
            found[name] = digest_of(file)
    return found


def check_files(folder: Path, written: Any) -> None:
    """OutputError if a file in a folder is missing or has another digest than it was written with."""
    if not isinstance(written, Mapping):
        raise ValueError(f"{FILES!r} are not digests by name")
    for name, digest in written.items():
        # Whoever wrote the list: nothing outside of the folder is read, and nothing without an end.
        if name != Path(name).name or not (folder / name).is_file():
            raise OutputError(f"{folder} has no file {name!r}, which its list of digests names; make it again, or take a copy")
        try:
            found = digests(folder, [name])[name]
        except OSError as error:
            raise OutputError(f"{folder / name} cannot be read: {error.strerror}; make it again, or take a copy") from error
        if found != digest:
            raise damaged(folder / name)


def damaged(path: Path) -> OutputError:
    """The error for a file that is not as it was written."""
    return OutputError(f"{path} is damaged: it is not as it was written, its digest differs; make it again, or take a copy")


def _hash(content: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(content, digest_size=SIZE)


def _digest_of(content: Mapping[str, Any]) -> str:
    """The digest of JSON values, whatever the order of keys, white space and escapes."""
    plain = json.loads(json.dumps(content))
    return _hash(json.dumps(plain, sort_keys=True).encode()).hexdigest()
