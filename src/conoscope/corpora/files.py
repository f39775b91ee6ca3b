"""Files of texts: CSV, TSV, JSON lines and parquet, with the columns that the user names."""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conoscope.corpora.base import Corpus, Example
from conoscope.errors import CorpusError, one_of

Row = tuple[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Columns:
    """Which column holds what. A label column of None means: `label` where the file has one, else no labels."""

    text: str = "text"
    label: str | None = None
    pair: str | None = None
    rationale: str | None = None


def is_file(spec: str) -> bool:
    """Whether a spec names a file (there, or by its ending) rather than a corpus."""
    return Path(spec).suffix.lower() in READERS or _is_file(Path(spec))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def read_file(path: Path, columns: Columns) -> Corpus:
    """A corpus of the file's rows, in their order; its labels are sorted."""
    if not _is_file(path):
        raise CorpusError(f"no file {path}; give the path of a {one_of(READERS)} file")
    if path.suffix.lower() not in READERS:
        raise CorpusError(f"{path} is of no known kind; give a {one_of(READERS)} file")
    rows = _reader(path.suffix.lower())
    number, first = next(rows(path), (0, {}))
    if not number:
        raise CorpusError(f"{path} is empty: no row after the header; give a file with at least one text")
    label = columns.label or ("label" if "label" in first else None)
    wanted = Columns(columns.text, label, columns.pair, columns.rationale)
    for column in filter(None, (wanted.text, wanted.label, wanted.pair, wanted.rationale)):
        if column not in first:
            raise CorpusError(
                f"{path} has no column {column!r}; it has {one_of(first)}; choose with --text, --pair, --label, --rationale"
            )
    labels, size = _scan(rows(path), path, label)

    def read() -> Iterator[Example]:
        return (_example(row, line, path, wanted) for line, row in rows(path))

    return Corpus(path.name, "", labels, read, size, fingerprint=_fingerprint(path, wanted))


def _fingerprint(path: Path, columns: Columns) -> str:
    """A hash of the file and of the columns that are read."""
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(f"{content} {columns}".encode()).hexdigest()


def _scan(rows: Iterator[Row], path: Path, label: str | None) -> tuple[tuple[str, ...], int]:
    """The labels, as numbers where all are numbers, and how many rows there are."""
    found: set[str] = set()
    count = 0
    for line, row in rows:
        count += 1
        if label is not None:
            found.add(_label(row, label, f"{path}:{line}"))
    numeric = all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in found)
    return tuple(sorted(found, key=(lambda name: (int(name), name)) if numeric else lambda name: (0, name))), count


def _example(row: Mapping[str, Any], line: int, path: Path, columns: Columns) -> Example:
    where = f"{path}:{line}"
    example = Example(
        text=_text(row, columns.text, where),
        label=None if columns.label is None else _label(row, columns.label, where),
        pair=None if columns.pair is None else _text(row, columns.pair, where),
        id=f"{path.name}:{line}",
    )
    if columns.rationale is None:
        return example
    flags = _flags(row.get(columns.rationale), where)
    if flags is not None and len(flags) != len(example.words):
        raise CorpusError(
            f"{where}: the rationale has {len(flags)} flags for {len(example.words)} words; give one 0 or 1 per whitespace word"
        )
    return replace(example, rationale=flags)


def _text(row: Mapping[str, Any], column: str, where: str) -> str:
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise CorpusError(f"{where}: the column {column!r} has no text (got {value!r}); fill it or take the row out")
    return value.encode("utf-8", "replace").decode()


def _label(row: Mapping[str, Any], column: str, where: str) -> str:
    value = row.get(column)
    if value is None or value == "" or value != value:
        raise CorpusError(f"{where}: the column {column!r} has no label; fill it or take the row out")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _flags(value: Any, where: str) -> tuple[bool, ...] | None:
    """One flag per word, from a list of 0 and 1 or from a text such as "0 1 1" or "[0, 1, 1]"; None where empty."""
    if value is None or value == "":
        return None
    items = value.replace(",", " ").strip("[] ").split() if isinstance(value, str) else value
    if not isinstance(items, list) or any(str(item) not in ("0", "1", "True", "False") for item in items):
        raise CorpusError(f"{where}: the rationale {value!r} is not a list of 0 and 1; give one per whitespace word")
    return tuple(str(item) in ("1", "True") for item in items)


def _delimited(delimiter: str) -> Callable[[Path], Iterator[Row]]:
    def read(path: Path) -> Iterator[Row]:
        """Each row with the line it begins on; a field may hold line breaks."""
        csv.field_size_limit(1 << 30)
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
            rows = csv.reader(lines, delimiter=delimiter, strict=True)
            try:
                header = next(rows, [])
                start = rows.line_num
                if len(set(header)) < len(header):
                    raise CorpusError(f"{path}:1: two columns have the same name; rename one")
                for row in rows:
                    line, start = start + 1, rows.line_num
                    if not row:
                        continue
                    if len(row) != len(header):
                        raise CorpusError(f"{path}:{line}: {len(row)} fields where the header has {len(header)}; mend the row")
                    yield line, dict(zip(header, row, strict=True))
            except csv.Error as error:
                raise CorpusError(f"{path}:{rows.line_num}: {error}; mend the row") from error

    return read


def _json_lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise CorpusError(f"{path}:{number}: not JSON ({error}); give one object per line") from error
            if not isinstance(row, dict):
                raise CorpusError(
                    f"{path}:{number}: a {type(row).__name__} where an object is expected; give one object per line"
                )
            yield number, row


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise CorpusError(f"{path}: not a parquet file that can be read ({error}); write it again") from error


def _reader(suffix: str) -> Callable[[Path], Iterator[Row]]:
    """The reader of this kind of file, its errors of the disk told as ours."""

    def read(path: Path) -> Iterator[Row]:
        try:
            yield from READERS[suffix](path)
        except OSError as error:
            raise CorpusError(
                f"{path} cannot be read: {error.strerror or error}; look at the file and its permissions"
            ) from error

    return read


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
