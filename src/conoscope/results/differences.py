"""Differences: what two results differ by, number by number, with 95 % intervals; paired where both read the same texts."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import MeasureError, NotMeasuredError, one_of
from conoscope.common.keywords import nearest
from conoscope.common.pooling import described, vector_read
from conoscope.common.questions import EXPLORED
from conoscope.common.terminal import printable
from conoscope.results.pairing import by_groups, by_items, unpaired
from conoscope.results.store import measured

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.largest import Largest
    from conoscope.results.replicates import Replicates
    from conoscope.results.result import Result

    Tables = Mapping[str, Any]
else:
    # With its types, a check of types would compute every table.
    Tables = Mapping

ITEMS = {"self_sim": "self_sim.words", "max_explained_variance": "max_explained_variance.words"}
"""Tables that are means over the rows of another table."""
NO_MEANS = ("capacity", "norms.dispersion")
"""Tables whose sd is not that of the items of which the value is the mean: random choices of classes, and lengths of which it is
the sd divided by the mean."""
NOT_KEPT = "unpaired: the sums keep no values by text"
OTHER_TEXTS = "unpaired: the texts differ"
DIFFER = "runs differ in the vector of a text"
RATED = ("size", "units")
"""Columns by which the largest differences are chosen."""
RENAMED = {"low": "from", "high": "to"}
"""Keys of tables whose names are those of the ends of an interval."""
SHOWN = 8
"""How many tables the one-line form names."""


class Differences(Tables):
    """The other result minus the one, as in after minus before: `differences["sim"]` has the columns value, other_value,
    difference (other_value minus value), low, high, n, other_n and interval, which says how low and high were made. `findings`
    tells a few of the largest in sentences.

    `largest` is a table of those that are largest for their values and standard deviations, and `save(folder)` writes all tables.

    `paired`: of the same examples in both, or of groups of the same texts. `unpaired`: from both standard deviations, as of
    different texts; where both models agree text by text it is too wide. `none`: the value is not a mean of items. Only rows that
    both results have are compared, and only tables whose rows have keys of their own (see `left_out`).
    """

    def __init__(self, one: "Result", other: "Result", names: Sequence[str] | None = None) -> None:
        """`names`: what the two runs are called in figures and reports; by default their models or corpora."""
        if not isinstance(other, type(one)):
            raise MeasureError(f"a result is compared with a result, not with {type(other).__name__}; give what measure returned")
        if names is not None and (isinstance(names, str) or len(set(names)) != 2 or not all(type(n) is str and n for n in names)):
            raise MeasureError(f"names={names!r} are not two names; give such as ('trained', 'untrained')")
        self.one, self.other, self.names = one, other, names
        self._computed: dict[str, pd.DataFrame] = {}
        if not any(name in other for name in one):
            raise MeasureError(f"no table is in both results: {one_of(one)}, and {one_of(other)}; measure the same")

    @cached_property
    def tables(self) -> list[str]:
        """The names of the tables that both results have and that can be compared."""
        shared = (name for name in self.one if name in self.other and self.one.index[name].question != EXPLORED)
        return [name for name in shared if _comparable(self.one[name]) and _comparable(self.other[name])]

    @property
    def left_out(self) -> list[str]:
        """The tables that only one result has, in which several rows have the same keys, or that only the explorer draws."""
        return [name for name in {**self.one.tables, **self.other.tables} if name not in self.tables]

    @property
    def same_texts(self) -> bool:
        """Whether both results were measured on the same examples."""
        one, other = (
            (result.provenance["seen"].get("examples"), result.provenance["seen"].get("digest")) for result in self._both
        )
        return one == other and None not in one

    @property
    def vectors(self) -> str | None:
        """Where the two runs read different vectors of a text, which ones, in a line; None if they do not, or it is not known."""
        read = [vector_read(result.provenance) for result in self._both]
        if None in read or read[0] == read[1]:
            return None
        one, other = (described(result.provenance) for result in self._both)
        return f"{DIFFER}: {one}, and {other}"

    @property
    def called(self) -> tuple[str, str]:
        """What the one and the other are called in sentences."""
        one, other = self.names or ("this", "the other")
        return str(one), str(other)

    @property
    def direction(self) -> str:
        """Which way differences are taken, as in `after minus before`."""
        one, other = self.called
        return printable(f"{other} minus {one}")

    @cached_property
    def findings(self) -> list[str]:
        """How many numbers were compared and how many of their intervals leave out 0; and the largest of these differences."""
        from conoscope.results.largest import sentences

        return sentences(self._largest, self.called, self.vectors)

    @property
    def largest(self) -> "pd.DataFrame":
        """The largest differences whose intervals leave out 0, at most three of a table: table, place, value, other_value,
        difference, low, high, n, other_n, interval, and `size`: the difference divided by the largest of both values and the
        standard deviation."""
        return self._largest.listed

    @cached_property
    def _largest(self) -> "Largest":
        from conoscope.results.largest import largest_of

        return largest_of(self)

    def __getitem__(self, name: str) -> "pd.DataFrame":
        return self.rated(name).drop(columns=[*RATED])

    def rated(self, name: str) -> "pd.DataFrame":
        """A table with two more columns: `size`, the size of a difference for its values and standard deviation; and `units`, on
        how many texts, groups of texts or other items its interval rests."""
        if name not in self.tables:
            raise NotMeasuredError(f"{name!r} is not compared{nearest(str(name), self.tables)}; compared: {one_of(self.tables)}")
        if name not in self._computed:
            found = self._with_intervals(name)
            apart = f"; {DIFFER}" if self.vectors is not None and self.reads_vectors(name) else ""
            self._computed[name] = found.assign(interval=found["interval"] + apart)
        return self._computed[name]

    def reads_vectors(self, name: str) -> bool:
        """Whether a table is of the vectors that stand for texts, one for each text."""
        return any(name in result.index and result.index[name].question == "classes" for result in self._both)

    def __contains__(self, name: object) -> bool:
        return name in self.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def plot(self, name: str | None = None) -> Any:
        """A figure of both results, as an Altair chart."""
        from conoscope.results.shown import notebook

        return notebook().chart_of(name, self._sources)

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write one HTML page of both results."""
        from conoscope.results.shown import notebook

        written: Path = notebook().write_report(self._sources, path, title)
        return written

    def save(self, folder: str | Path) -> Path:
        """Write each table of differences as parquet and CSV, and differences.json: both runs, the direction and the findings."""
        from conoscope.results.difference_files import save_differences

        return save_differences(self, folder)

    def __repr__(self) -> str:
        """Both runs and the tables that are compared, in one line."""
        one, other = (measured(result.provenance) for result in self._both)
        first, second = self.called
        note = "" if self.vectors is None else f"; {self.vectors}"
        tables = f"{len(self)} tables, {', '.join(self.tables[:SHOWN])}"
        return printable(f"<Differences {self.direction}; {first}: {one}; {second}: {other}; {tables}{note}>")

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from conoscope.results.shown import notebook

        html: str = notebook().shown_differences(self)
        return html

    @property
    def _both(self) -> "tuple[Result, Result]":
        return self.one, self.other

    @property
    def _sources(self) -> "Sequence[Result] | Mapping[str, Result]":
        return [*self._both] if self.names is None else dict(zip(self.names, self._both, strict=True))

    def _with_intervals(self, name: str) -> "pd.DataFrame":
        both = _merged(self.one[name], self.other[name])
        columns = [*_keys(both), "value", "other_value", "difference", "low", "high", "n", "other_n", "interval"]
        of_items = name.partition(":")[0] not in NO_MEANS
        found = unpaired(both, NOT_KEPT if self.same_texts else OTHER_TEXTS, of_items)
        if self.same_texts:
            one, other = (_items_of(result, name) for result in self._both)
            if one is not None and other is not None:
                found = by_items(found, one, other)
            first, second = (_replicates(result, name) for result in self._both)
            if first is not None and second is not None:
                found = by_groups(found, first, second)
        return found.assign(size=_sizes(found, of_items))[[*columns, *RATED]]


def _sizes(both: "pd.DataFrame", of_items: bool) -> "pd.Series[float]":
    """Each difference divided by the largest of both values and the standard deviation (the root of the mean of both variances),
    if that is of the items: a difference in a spread of almost nothing is no large one, nor is one beside 0 in a large spread."""
    size: pd.Series[float] = both["difference"].abs()
    scale = both[["value", "other_value"]].astype(float).abs().max(axis=1)
    if of_items:
        spread = ((both["sd"].astype(float) ** 2 + both["sd_other"].astype(float) ** 2) / 2) ** 0.5
        scale = scale.combine(spread, max).where(spread.notna(), scale)
    return (size / scale).where(scale > 0)


def _items_of(result: "Result", name: str) -> "pd.DataFrame | None":
    """The value of each item of a table's means: the last key column names the item."""
    import pandas as pd

    table, colon, options = name.partition(":")
    if table in ITEMS:
        return _rows_of_items(result, f"{ITEMS[table]}{colon}{options}")
    from conoscope.measures.by_example import by_example

    rows = pd.DataFrame(by_example(name, result.provenance["measures"], result.tally))
    return None if rows.empty else _once(rows[[*(c for c in rows if c not in ("example", "value")), "example", "value"]])


def _replicates(result: "Result", name: str) -> "Replicates | None":
    """What a table's rows are without each group of texts."""
    from conoscope.results.replicates import replicates

    return replicates(result, name)


def _rows_of_items(result: "Result", name: str) -> "pd.DataFrame | None":
    if name not in result or "word" not in result[name]:
        return None
    return _once(result[name][["layer", "word", "value"]])


def _once(frame: "pd.DataFrame") -> "pd.DataFrame | None":
    """The rows that have a value; None if a name stands for two items, as cut names may."""
    there = frame.dropna(subset="value")
    return None if there.duplicated([*there.columns[:-1]]).any() else there


def _keys(frame: "pd.DataFrame") -> list[str]:
    columns = list(frame.columns)
    return columns[columns.index("site") : columns.index("value")]


def _comparable(frame: "pd.DataFrame") -> bool:
    """Whether each row has keys of its own."""
    return {"site", "value", "sd", "n"} <= set(frame.columns) and not frame.duplicated(_keys(frame)).any()


def _merged(one: "pd.DataFrame", other: "pd.DataFrame") -> "pd.DataFrame":
    """The rows that both tables have, and their differences."""
    one, other = (frame.rename(columns={key: RENAMED[key] for key in _keys(frame) if key in RENAMED}) for frame in (one, other))
    keys = [key for key in _keys(one) if key in _keys(other)]
    columns = [*keys, "value", "sd", "n"]
    both = one[columns].merge(other[columns], on=keys, suffixes=("", "_other"))
    both = both.rename(columns={"value_other": "other_value", "n_other": "other_n"})
    both["difference"] = both["other_value"].astype(float) - both["value"].astype(float)
    return both
