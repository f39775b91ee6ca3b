"""Shown: tables with their provenance, as a mapping that draws figures and writes a report."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import NotMeasuredError, one_of
from conoscope.common.keywords import nearest
from conoscope.results.store import TableInfo

if TYPE_CHECKING:
    import pandas as pd

    Tables = Mapping[str, Any]
else:
    # With its types, a check of types would compute every table.
    Tables = Mapping


class Shown(Tables):
    """Tables by name, where they come from, and what they hold."""

    provenance: Mapping[str, Any]

    @property
    @abstractmethod
    def tables(self) -> "Mapping[str, pd.DataFrame]":
        """Every table by name."""

    @property
    @abstractmethod
    def index(self) -> Mapping[str, TableInfo]:
        """The description of each table, by name."""

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self.tables:
            raise NotMeasuredError(f"{name!r} was not measured{nearest(str(name), self.tables)}; measured: {one_of(self.tables)}")
        return self.tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __bool__(self) -> bool:
        return True  # a result without tables is one, too

    # Tables have no single truth value, so results are equal only to themselves.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def plot(self, name: str | None = None) -> Any:
        """A figure as an Altair chart, by its name or that of a table; MeasureError if there is nothing to draw it from."""
        return notebook().chart_of(name, [self])

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML page with every figure and table."""
        written: Path = notebook().write_report([self], path, title)
        return written


def notebook() -> Any:
    """The module that shows results, imported when something is shown: rooms above this one know how."""
    from conoscope.reporting import notebook

    return notebook


def explorer() -> Any:
    """The module that shows results live, imported when one is shown so."""
    from conoscope.exploring import hosts

    return hosts
