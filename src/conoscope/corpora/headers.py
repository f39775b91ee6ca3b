"""Files without a header: whether a CSV or TSV file has none, and which of its columns holds texts and which labels."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from conoscope.common.errors import CorpusError
from conoscope.common.terminal import complain
from conoscope.corpora.base import Notes
from conoscope.corpora.tables import DELIMITERS, kind_of, rows_without_header

if TYPE_CHECKING:
    from conoscope.corpora.files import Columns

READ = 200
"""How many rows are read to tell."""
SENTENCE, LABEL = 6, 3
"""From how many words on a first field is a text and no name of a column, and up to how many words a field is a label."""


def without_header(path: Path, columns: "Columns", default: "Columns") -> "Columns | None":
    """The columns of a file without a header, by number; None if it has one.

    It has none if columns are asked for by number, or if nothing is asked for and its first row looks like the others. What was
    found is told.
    """
    if kind_of(path) not in DELIMITERS:
        return None
    table = list(_first_rows(path))
    asked = [name for name in (columns.text, columns.label, columns.pair, columns.rationale) if name]
    if not table or columns.text in table[0].values():
        return None
    numbered = any(name.isdecimal() and name not in table[0].values() for name in asked)
    text = _text_column(table)
    label = _label_column(table, text)
    named = columns.text == default.text and columns.label == default.label and columns.pair is columns.rationale is None
    if not numbered and not (named and (label is not None or _are_sentences([row[text] for row in table]))):
        return None
    found = columns if columns.text != default.text else replace(columns, text=text)
    if columns.label is None and not numbered and label is not None:
        found = replace(found, label=label)
    if found != columns:
        of_label = "" if found.label is None else f" and column {found.label} as the label"
        _tell(f"{path} has no header: column {found.text} is read as the text{of_label}; choose with --text and --label")
    return found


def _first_rows(path: Path) -> Iterator[Mapping[str, str]]:
    """The first rows, up to one that cannot be read: whoever reads the whole file says what is wrong there."""
    with suppress(CorpusError):
        for _, row in islice(rows_without_header(path, Notes()), READ):
            yield row


@cache
def _tell(message: str) -> None:
    """Print a note, once however often the file is read."""
    complain(message)


def _text_column(table: Sequence[Mapping[str, str]]) -> str:
    """The column with the most words."""
    return max(table[0], key=lambda name: sum(len(row[name].split()) for row in table))


def _label_column(table: Sequence[Mapping[str, str]], text: str) -> str | None:
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
