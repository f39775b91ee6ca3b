"""Typesetting: words in columns of one width, broken into lines, so that a chart can colour what stands behind each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from conoscope.figures.base import Chart
from conoscope.figures.marks import columns_of, cut

WORD, LINE, NAME = 24, 64, 22
"""Columns of a word, of a line, and of the names beside the lines, at most."""
NARROW = 50
"""Columns of the whole on narrow pages."""
COLUMN, ROW = 6.8, 19
"""Pixels of a column and of a row."""
PART = " · "
"""Between the parts of a title."""
MARGIN = 0.4
"""Columns that the background of a word is wider, on each side."""


def laid_out(words: Iterable[str], longest: int = LINE) -> Iterator[tuple[int, int, int]]:
    """The line of each word, its first column and the one after its last."""
    line = column = 0
    for word in words:
        width = max(1, columns_of(word))
        if column and column + width > longest:
            line, column = line + 1, 0
        yield line, column, column + width
        column += width + 1


def wrapped(title: str, columns: int) -> list[str]:
    """The title in lines of so many columns, broken between its parts; a longer part has a line to itself."""
    lines: list[str] = []
    for part in title.split(PART):
        longer = f"{lines[-1]}{PART}{part}" if lines else part
        lines[-1:] = [longer] if not lines or columns_of(longer) <= columns else [lines[-1], part]
    return lines


@dataclass
class Page:
    """Texts under each other: the cells of words, headings, and notes beside the words, for which `gutter` columns are kept."""

    gutter: int = NAME
    line: int = LINE
    cells: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    row: int = 0

    def head(self, title: str) -> None:
        """Begin a text, with some space above it."""
        self.row += bool(self.row)
        for line in wrapped(title, self.columns):
            self.heads.append({"x": 0, "row": self.row, "text": line})
            self.row += 1

    def text(self, name: str, words: Iterable[str], told: Sequence[dict[str, Any]], left_out: int) -> None:
        """Lines of words with what is told of each, the name beside the first; how many were left out stands at the end."""
        shown = [cut(word, WORD) for word in words]
        ending = [f"… {left_out} more word{'s' * (left_out > 1)}"] if left_out else []
        places = [
            (self.row + line, self.gutter + first, self.gutter + last)
            for line, first, last in laid_out([*shown, *ending], self.line)
        ]
        self.notes.append({"x": 0, "row": self.row, "text": cut(name, self.gutter - 1)})
        for word, (row, first, last), known in zip(shown, places, told, strict=False):
            self.cells.append({"x": round(first - MARGIN, 1), "end": round(last + MARGIN, 1), "row": row, "word": word, **known})
        if ending:
            self.notes.append({"x": places[-1][1], "row": places[-1][0], "text": ending[0]})
        self.row = places[-1][0] + 1

    @property
    def columns(self) -> int:
        """Columns of the whole."""
        return self.gutter + self.line + 1

    @property
    def size(self) -> dict[str, float]:
        """Pixels of the whole."""
        return {"width": self.columns * COLUMN, "height": self.row * ROW}

    @property
    def x(self) -> Any:
        """Where something begins."""
        return self._columns("x")

    @property
    def middle(self) -> Any:
        """Where the middle of something is."""
        return self._columns("middle")

    def chart(self, rows: list[dict[str, Any]]) -> Chart:
        """A chart of cells or notes, each in its row."""
        import altair as alt
        import pandas as pd

        scale = alt.Scale(domain=list(range(self.row)), paddingInner=0.12, paddingOuter=0)
        return alt.Chart(pd.DataFrame(rows)).encode(alt.Y("row:O", axis=None, scale=scale))

    def legend(self, values: list[int]) -> dict[str, Any]:
        """Below the words, with those values alone."""
        return {"orient": "bottom", "direction": "horizontal", "values": values, "gradientLength": 160}

    def _columns(self, name: str) -> Any:
        import altair as alt

        return alt.X(f"{name}:Q", axis=None, scale=alt.Scale(domain=[0, self.columns], nice=False, zero=False))
