"""Files of texts: CSV, TSV, JSON lines and parquet, with the columns that the user names."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conoscope.common.errors import CorpusError, listed, one_of
from conoscope.common.keywords import nearest, refuse_unknown_fields
from conoscope.common.textfiles import as_data_error, is_there, readable
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.headers import without_header
from conoscope.corpora.tables import READERS, Row, columns_of, if_separated, kind_of, rows, rows_without_header

HOW = "choose with --text, --pair, --label, --rationale (in Python text=, label=, pair=, rationale=)"


Names = Sequence[str] | Mapping[Any, str]


@refuse_unknown_fields
@dataclass(frozen=True)
class Columns:
    """Names of the columns; in a CSV or TSV file without a header, their numbers from 0 on (0 or "0").

    A label column of None means `label` if any row of the file has it, else no labels. `label_names`: what to call the labels, in
    their order ("bad", "good"), or by label ("0=bad", "1=good"); also as one text, "bad,good", or as a dictionary, {0: "bad"}.
    """

    text: str = "text"
    label: str | None = None
    pair: str | None = None
    rationale: str | None = None
    label_names: Names = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_names", _listed(self.label_names))
        for name in ("text", "label", "pair", "rationale"):
            if type(place := getattr(self, name)) is int:
                object.__setattr__(self, name, str(place))

    def within(self, columns: Iterable[str], where: str, how: str = HOW) -> "Columns":
        """The same with the label column resolved; CorpusError, which says `how` columns are chosen, if one is missing."""
        names = list(columns)
        resolved = replace(self, label=self.label or ("label" if "label" in names else None))
        for column in filter(None, (resolved.text, resolved.label, resolved.pair, resolved.rationale)):
            if column not in names:
                raise CorpusError(f"{where} has no column {column!r}{nearest(column, names)}; it has {listed(names)}; {how}")
        return resolved


def _listed(names: Any) -> tuple[str, ...]:
    """Names of labels in the form that the command line has; CorpusError for what is in no form of them."""
    if isinstance(names, Mapping):
        names = [f"{label}={name}" for label, name in names.items()]
    listed = tuple(part.strip() for part in names.split(",")) if isinstance(names, str) and names else names
    sound = isinstance(listed, Iterable) and not isinstance(listed, str | bytes)
    listed = tuple(listed or ()) if sound or not listed else ()
    named = listed and all(isinstance(name, str) and name for name in listed) and len({"=" in name for name in listed}) == 1
    if names and not named:
        raise CorpusError(f"label_names={names!r} is not such as ('bad', 'good'), 'bad,good' or {{0: 'bad', 1: 'good'}}")
    return listed


def is_file(spec: str) -> bool:
    """Whether a spec names a file (it exists, or has the suffix of one) rather than a corpus."""
    return kind_of(Path(spec)) in READERS or is_there(Path(spec))


def read_file(path: Path, columns: Columns) -> Corpus:
    """A corpus of the file's rows, in their order; labels are sorted."""
    numbered = without_header(path, columns, Columns()) if is_there(path) else None
    names = columns_of(path) if numbered is None else list(next(rows_without_header(path, Notes()))[1])
    if names is None:
        raise CorpusError(f"{path} is empty: no row after the header; give a file with at least one text")
    chosen, table = (columns, rows) if numbered is None else (numbered, rows_without_header)
    chosen = chosen.within(names, str(path), HOW + if_separated(path, names))
    labels, size = scan(table(path, Notes()), str(path), chosen.label)
    name = readable(path.name)

    def read(notes: Notes) -> Iterator[Example]:
        return (example(row, chosen, f"{path}:{line}", f"{name}:{line}") for line, row in table(path, notes))

    return with_label_names(Corpus(name, "", labels, read, size, fingerprint=_fingerprint(path, chosen)), columns.label_names)


def with_label_names(corpus: Corpus, names: Names) -> Corpus:
    """The same corpus with other names of its labels; the same corpus if no names are given."""
    if not names:
        return corpus
    by_label = dict(name.split("=", 1) for name in names if "=" in name)
    if not by_label:
        by_label = dict(zip(corpus.labels, names, strict=False))
    if len(names) != len(corpus.labels) or set(by_label) != set(corpus.labels):
        raise CorpusError(
            f"{len(names)} label names, {one_of(names)}, for the labels {one_of(corpus.labels) or 'of no column'} of {corpus}; "
            "give one for each, in this order, as in --label-names bad,good, or as 0=bad,1=good"
        )

    def read(notes: Notes) -> Iterator[Example]:
        return (e if e.label is None else replace(e, label=by_label[e.label]) for e in corpus.read(notes))

    digest = hashlib.sha256(f"{corpus.fingerprint} {sorted(by_label.items())}".encode()).hexdigest()
    labels = tuple(dict.fromkeys(by_label[label] for label in corpus.labels))
    return replace(corpus, labels=labels, read=read, fingerprint=digest)


def _fingerprint(path: Path, columns: Columns) -> str:
    """A hash of the file and of the chosen columns."""
    with as_data_error(path), path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(f"{content} {columns}".encode()).hexdigest()


def scan(table: Iterable[Row], where: str, label: str | None) -> tuple[tuple[str, ...], int]:
    """The labels, in numeric order if all are whole numbers, and the number of rows."""
    found: set[str] = set()
    count = 0
    for line, row in table:
        count += 1
        if label is not None:
            found.add(_label(row, label, f"{where}:{line}"))
    numeric = all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in found)
    return tuple(sorted(found, key=(lambda name: (int(name), name)) if numeric else lambda name: (0, name))), count


def example(row: Mapping[str, Any], columns: Columns, where: str, name: str) -> Example:
    """The example in a row; `where` is for error messages, `name` is the example's id in results."""
    read = Example(
        text=_text(row, columns.text, where),
        label=None if columns.label is None else _label(row, columns.label, where),
        pair=None if columns.pair is None else _text(row, columns.pair, where),
        id=name,
    )
    if columns.rationale is None:
        return read
    flags = _flags(row.get(columns.rationale), where)
    if flags is not None and len(flags) != len(read.words):
        raise CorpusError(
            f"{where}: the rationale has {len(flags)} flags for {len(read.words)} words; give one 0 or 1 per whitespace word"
        )
    return replace(read, rationale=flags)


def _text(row: Mapping[str, Any], column: str, where: str) -> str:
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise CorpusError(f"{where}: the column {column!r} has no text (got {value!r}); fill it or take the row out")
    return value.encode("utf-8", "replace").decode()


def _label(row: Mapping[str, Any], column: str, where: str) -> str:
    value = row.get(column)
    if _is_missing(value):
        raise CorpusError(
            f"{where}: the column {column!r} has no label; fill it or take the row out, or name another column with --label"
        )
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty: null, NaN or white space."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _flags(value: Any, where: str) -> tuple[bool, ...] | None:
    """One flag per word, from a list of 0 and 1 or from a text such as "0 1 1" or "[0, 1, 1]"; None if empty."""
    if value is None or value == "":
        return None
    items = value.replace(",", " ").strip("[] ").split() if isinstance(value, str) else value
    if not isinstance(items, list) or any(str(item) not in ("0", "1", "True", "False") for item in items):
        raise CorpusError(f"{where}: the rationale {value!r} is not a list of 0 and 1; give one per whitespace word")
    return tuple(str(item) in ("1", "True") for item in items)
