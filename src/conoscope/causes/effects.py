"""Effects: the tables of a causal test, as a mapping, with their provenance."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.terminal import printable
from conoscope.common.writing import as_output_error
from conoscope.results.shown import Shown
from conoscope.results.store import TableInfo, claim, measured, write_provenance, write_tables

if TYPE_CHECKING:
    import pandas as pd


class Effects(Shown):
    """Tables by name: `effects["ablation"]` is a DataFrame in long form; `plot` draws a figure, `report` writes a page."""

    def __init__(
        self, tables: "Mapping[str, pd.DataFrame]", provenance: Mapping[str, Any], index: Mapping[str, TableInfo], text: str
    ) -> None:
        """`index`: what the tables hold; `text`: what is printed of them."""
        self._tables, self.provenance, self._index, self._text = tables, provenance, index, text

    @property
    def tables(self) -> "Mapping[str, pd.DataFrame]":
        """Every table by name."""
        return self._tables

    @property
    def index(self) -> Mapping[str, TableInfo]:
        """The description of each table, by name."""
        return self._index

    @property
    def remarks(self) -> list[str]:
        """Notes on the numbers."""
        return list(self.provenance["notes"])

    def save(self, folder: str | Path) -> Path:
        """Write each table as parquet and CSV, their index, and provenance.json."""
        where = claim(folder, self.provenance)
        with as_output_error(where):
            write_provenance(where, self.provenance)
            write_tables(where, self.tables, self.provenance, self.index)
        return where

    def __repr__(self) -> str:
        """The model, the texts and the tables, in one line."""
        return printable(f"<Effects of {measured(self.provenance)}: {', '.join(self.tables)}>")

    def __str__(self) -> str:
        return self._text
