"""Rows of a file with their line numbers: CSV, TSV, JSON lines (each plain or gzip) and parquet."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conoscope.common.errors import CorpusError, one_of
from conoscope.common.textfiles import is_there, lines
from conoscope.corpora.base import Notes

Row = tuple[int, Mapping[str, Any]]
Reader = Callable[[Path, Notes], Iterator[Row]]


def kind_of(path: Path) -> str:
    """The suffix that determines the reader of a file; .gz does not count."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def rows(path: Path, notes: Notes) -> Iterator[Row]:
    """The rows of a file, each with the line on which it begins (in parquet, its number)."""
    if not is_there(path):
        raise CorpusError(f"no file {path}; give the path of a {one_of(READERS)} file")
    if kind_of(path) not in READERS:
        raise CorpusError(f"{path} is of no known kind; give a {one_of(READERS)} file")
    return READERS[kind_of(path)](path, notes)


def columns_of(path: Path) -> list[str] | None:
    """The columns of a file, in JSON lines those of all rows together; None if it has no rows."""
    found: dict[str, None] = {}
    empty = True
    for _, row in rows(path, Notes()):
        empty = False
        found |= dict.fromkeys(row)
        if kind_of(path) != ".jsonl":
            break
    return None if empty else list(found)


def require(path: Path, row: Mapping[str, Any], *columns: str) -> None:
    """CorpusError if a row lacks one of these columns."""
    for column in columns:
        if column not in row:
            raise CorpusError(f"{path} has no column {column!r}; it has {one_of(row)}; check whether it is the right file")


def _delimited(delimiter: str) -> Reader:
    def read(path: Path, notes: Notes) -> Iterator[Row]:
        """The rows by the names in the header; each must have as many fields."""
        table = _fields(path, notes, delimiter)
        _, header = next(table, (1, []))
        if len(set(header)) < len(header):
            raise CorpusError(f"{path}:1: two columns have the same name; rename one{_if_headerless(header)}")
        for line, row in table:
            if len(row) != len(header):
                counts = f"{len(row)} fields where the header has {len(header)}"
                raise CorpusError(f"{path}:{line}: {counts}; correct the row{if_separated(path, header)}")
            yield line, dict(zip(header, row, strict=True))

    return read


def _if_headerless(header: list[str]) -> str:
    return "" if all(header) else "; if the file has no header, number its columns from 0, as in --text 0"


def if_separated(path: Path, header: Sequence[str]) -> str:
    """What to do about a header of one column that holds another mark of separation."""
    delimiter = DELIMITERS.get(kind_of(path), "")
    mark = next((mark for mark in SEPARATORS if len(header) == 1 and mark in header[0] and mark != delimiter), None)
    return (
        "" if mark is None or not delimiter else f"; its columns seem to be separated by {mark!r}: separate them by {delimiter!r}"
    )


def rows_without_header(path: Path, notes: Notes) -> Iterator[Row]:
    """The rows of a CSV or TSV file without a header; its columns are called 0, 1, and so on."""
    width = None
    for line, row in _fields(path, notes, DELIMITERS[kind_of(path)]):
        width = width or len(row)
        if len(row) != width:
            raise CorpusError(f"{path}:{line}: {len(row)} fields where the first row has {width}; correct the row")
        yield line, {str(number): field for number, field in enumerate(row)}


def _fields(path: Path, notes: Notes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row that is not empty, with its line; as fields may contain line breaks, that on which it begins."""
    csv.field_size_limit(1 << 30)
    table = csv.reader(lines(path, notes), delimiter=delimiter, strict=True)
    start = 0
    try:
        for row in table:
            line, start = start + 1, table.line_num
            if row:
                yield line, row
    except csv.Error as error:
        raise CorpusError(f"{path}:{table.line_num}: {error}; correct the row") from error


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
        # Opened by Python: Arrow accepts only UTF-8 names, and an ASCII locale decodes names otherwise.
        with path.open("rb") as opened, pq.ParquetFile(opened) as file:
            number = 0
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, ValueError, OverflowError, OSError) as error:
        raise CorpusError(f"{path}: not a parquet file that can be read ({error}); write it again") from error


DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
SEPARATORS = (";", "\t", "|", ",")
READERS: dict[str, Reader] = {
    **{kind: _delimited(delimiter) for kind, delimiter in DELIMITERS.items()},
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
