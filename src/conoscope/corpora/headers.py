"""Files without a header: whether a CSV or TSV file has none, and which of its columns holds texts and which labels."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from conoscope.common.errors import CorpusError, listed
from conoscope.common.terminal import complain
from conoscope.corpora.base import Notes
from conoscope.corpora.tables import DELIMITERS, kind_of, rows_without_header

if TYPE_CHECKING:
    from conoscope.corpora.files import Columns

Table = Sequence[Mapping[str, str]]
"""Rows, with their fields by number."""
READ = 200
"""How many rows are read to tell."""
SENTENCE, LABEL = 6, 3
"""From how many words on a first field is a text and no name of a column, and up to how many words a field is a label."""

USUAL = ("text", "label", "review", "sentence", "class", "target", "id")
"""Names that columns often have."""


def without_header(path: Path, columns: "Columns", default: "Columns") -> "Columns | None":
    """The columns of a file without a header, by number; None if it has one.

    It has none if columns are asked for by number and its first row is no header (see `_has_header`), or if nothing is asked for
    and its first row looks like the others. What was found is told. CorpusError if a number may be a place or a name.
    """
    if kind_of(path) not in DELIMITERS:
        return None
    table = list(_first_rows(path))
    asked = [name for name in (columns.text, columns.label, columns.pair, columns.rationale) if name]
    if not table or any(name in table[0].values() and not _is_place(name) for name in asked):
        return None
    text = _text_column(table)
    label = _label_column(table, text)
    named = columns.text == default.text and columns.label == default.label and columns.pair is columns.rationale is None
    numbers = [name for name in asked if _is_place(name)]
    if numbers:
        if _has_header(path, table, numbers):
            return None
    elif not (named and (label is not None or _are_sentences([row[text] for row in table]))):
        return None
    found = columns if columns.text != default.text else replace(columns, text=text)
    if columns.label is None and not numbers and label is not None:
        found = replace(found, label=label)
    if found != columns or any(name in table[0].values() for name in numbers):
        of_label = "" if found.label is None else f" and column {found.label} as the label"
        _tell(f"{path} has no header: column {found.text} is read as the text{of_label}; choose with --text and --label")
    return found


def _has_header(path: Path, table: Table, numbers: Sequence[str]) -> bool:
    """Whether the first row is a header, where columns are asked for by number.

    The numbers 0, 1, 2 … are one. No header has a name that comes again below it, or a number above numbers; nor has a row of
    texts names that stand above numbers. CorpusError if a header has other names than these numbers, or nobody can tell.
    """
    first, rest = table[0], table[1:]
    cells = list(first.values())
    if _counts(cells) or (not cells[0] and _counts(cells[1:])):
        return True
    below = {name: [row[name].strip() for row in rest] for name in first}
    pairs = [(first[name].strip(), below[name]) for name in first]
    again = not rest or any(_is_like(cell, values) for cell, values in pairs)
    alike = again or _is_sentence(first[_text_column(table)])
    other = any(_is_name(cell, values) for cell, values in pairs)
    if not all(number in cells for number in numbers):
        if again or not other or (alike and not any(_is_number(values[0]) for cell, values in pairs if _is_name(cell, values))):
            return False
        raise CorpusError(
            f"{path} has a header, {listed(cells)}, so its columns have no numbers: name them, as in --text {cells[0]!r}; "
            "if that row is a text, put a header above it"
        )
    if alike == other:
        raise CorpusError(
            f"{path}:1: {listed(cells)} may be a header or a row, so {numbers[0]} may be a name or a place; "
            "put a header such as text,label above it and type --text text --label label"
        )
    if other:
        _tell(f"the first row of {path} is read as a header: {listed(cells)}")
    return other


def _counts(cells: Sequence[str]) -> bool:
    """Whether these are the numbers from 0 on, as pandas writes where columns have no names."""
    return list(cells) == [str(number) for number in range(len(cells))] and bool(cells)


def _is_like(cell: str, below: Sequence[str]) -> bool:
    """Whether a first field is one of the values of its column: it comes again, or is a number above numbers."""
    return bool(cell) and (cell in below or (_is_number(cell) and any(below) and all(map(_is_number, filter(None, below)))))


def _is_name(cell: str, below: Sequence[str]) -> bool:
    """Whether a first field can only be a name: a usual one, a word above numbers, or above a few values that all come again."""
    if not cell or not any(below) or cell in below:
        return False
    if cell.casefold() in USUAL:
        return True
    if all(map(_is_number, filter(None, below))):
        return not _is_number(cell)
    return len(cell.split()) <= LABEL and 2 * len(set(below)) <= len(below)


def _is_place(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _first_rows(path: Path) -> Iterator[Mapping[str, str]]:
    """The first rows, up to one that cannot be read: whoever reads the whole file says what is wrong there."""
    with suppress(CorpusError):
        for _, row in islice(rows_without_header(path, Notes()), READ):
            yield row


@cache
def _tell(message: str) -> None:
    """Print a note, once however often the file is read."""
    complain(message)


def _text_column(table: Table) -> str:
    """The column with the most words."""
    return max(table[0], key=lambda name: sum(len(row[name].split()) for row in table))


def _label_column(table: Table, text: str) -> str | None:
    """The last column whose first field comes again, and which has few values of few words; None if there is none."""
    for name in reversed([name for name in table[0] if name != text]):
        values = [row[name].strip() for row in table]
        short = all(value and len(value.split()) <= LABEL for value in values)
        if short and values[0] in values[1:] and 2 * len(set(values)) <= len(values) + 2:
            return name
    return None


def _are_sentences(fields: Sequence[str]) -> bool:
    """Whether the first field is a text and no name of a column, and so are most of the others."""
    alike = [_is_sentence(field) for field in fields]
    return alike[0] and 2 * sum(alike[1:]) >= max(len(alike) - 1, 1)


def _is_sentence(field: str) -> bool:
    words = field.split()
    return len(words) >= SENTENCE or (len(words) > 1 and field.rstrip().endswith((".", "!", "?")))
