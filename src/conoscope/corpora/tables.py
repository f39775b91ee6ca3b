"""Rows of a file: CSV, TSV, JSON lines (each plain or gzip) and parquet, each row with the line that it begins on."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from conoscope.corpora.base import Notes
from conoscope.errors import CorpusError, one_of
from conoscope.textfiles import is_there, lines

Row = tuple[int, Mapping[str, Any]]
Reader = Callable[[Path, Notes], Iterator[Row]]


def kind_of(path: Path) -> str:
    """The ending that says how to read a file, without that of gzip."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def rows(path: Path, notes: Notes) -> Iterator[Row]:
    """The rows of a file, with their line (in parquet, their number)."""
    if not is_there(path):
        raise CorpusError(f"no file {path}; give the path of a {one_of(READERS)} file")
    if kind_of(path) not in READERS:
        raise CorpusError(f"{path} is of no known kind; give a {one_of(READERS)} file")
    return READERS[kind_of(path)](path, notes)


def columns_of(path: Path) -> list[str] | None:
    """The columns of a file, of JSON lines those of all rows together; None where it has no row."""
    found: dict[str, None] = {}
    empty = True
    for _, row in rows(path, Notes()):
        empty = False
        found |= dict.fromkeys(row)
        if kind_of(path) != ".jsonl":
            break
    return None if empty else list(found)


def require(path: Path, row: Mapping[str, Any], *columns: str) -> None:
    """Refuse a file without these columns."""
    for column in columns:
        if column not in row:
            raise CorpusError(f"{path} has no column {column!r}; it has {one_of(row)}; look whether it is the right file")


def _delimited(delimiter: str) -> Reader:
    def read(path: Path, notes: Notes) -> Iterator[Row]:
        """A field may hold line breaks: the line of a row is where it begins."""
        csv.field_size_limit(1 << 30)
        table = csv.reader(lines(path, notes), delimiter=delimiter, strict=True)
        try:
            header = next(filter(None, table), [])
            start = table.line_num
            if len(set(header)) < len(header):
                raise CorpusError(f"{path}:1: two columns have the same name; rename one")
            for row in table:
                line, start = start + 1, table.line_num
                if not row:
                    continue
                if len(row) != len(header):
                    raise CorpusError(f"{path}:{line}: {len(row)} fields where the header has {len(header)}; mend the row")
                yield line, dict(zip(header, row, strict=True))
        except csv.Error as error:
            raise CorpusError(f"{path}:{table.line_num}: {error}; mend the row") from error

    return read


def _json_lines(path: Path, notes: Notes) -> Iterator[Row]:
    for number, line in enumerate(lines(path, notes), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path}:{number}: not JSON ({error}); give one object per line") from error
        if not isinstance(row, dict):
            raise CorpusError(f"{path}:{number}: a {type(row).__name__} where an object is expected; give one object per line")
        yield number, row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _parquet(path: Path, _: Notes) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Opened here: Arrow takes names in UTF-8 alone, and an ASCII locale reads others.
        with path.open("rb") as opened, pq.ParquetFile(opened) as file:
            number = 0
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, ValueError, OverflowError, OSError) as error:
        raise CorpusError(f"{path}: not a parquet file that can be read ({error}); write it again") from error


READERS: dict[str, Reader] = {
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
    ".tab": _delimited("\t"),
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
