"""Differences: what two results differ by, number by number, with 95 % intervals; paired by example where both keep examples."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import MeasureError, NotMeasuredError, one_of
from conoscope.common.keywords import nearest
from conoscope.common.pooling import described, vector_read
from conoscope.common.terminal import printable
from conoscope.results.store import measured

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result

    Tables = Mapping[str, Any]
else:
    # With its types, a check of types would compute every table.
    Tables = Mapping

LEVEL = 0.975
ITEMS = {"self_sim": "self_sim.words", "max_explained_variance": "max_explained_variance.words"}
"""Tables that are means over the rows of another table."""
NO_MEAN = "none: the value is not a mean of items, or is one of a single item"
NOT_KEPT = "unpaired: the sums keep no value for each text"
OTHER_TEXTS = "unpaired: the texts differ"
OTHER_ITEMS = "unpaired: it is not known of the same items in both"
DIFFER = "runs differ in the vector of a text"
SHOWN = 8
"""How many of the largest differences are shown."""


class Differences(Tables):
    """The other result minus the one, as in after minus before: `differences["sim"]` has the columns value, other_value,
    difference (other_value minus value), low, high, n, other_n and interval, which says how low and high were made. `findings`
    tells a few of the largest in sentences.

    `paired`: of the same examples in both. `unpaired`: from both standard deviations, as of different texts; where both models
    agree text by text it is too wide. `none`: the value is not a mean of items. Only rows that both results have are compared,
    and only tables whose rows have keys of their own (see `left_out`).
    """

    def __init__(self, one: "Result", other: "Result", names: Sequence[str] | None = None) -> None:
        """`names`: what the two runs are called in figures and reports; by default their models or corpora."""
        if not isinstance(other, type(one)):
            raise MeasureError(f"a result is compared with a result, not with {type(other).__name__}; give what measure returned")
        if names is not None and (isinstance(names, str) or len(set(names)) != 2):
            raise MeasureError(f"names={names!r} are not two names; give such as ('trained', 'untrained')")
        self.one, self.other, self.names = one, other, names
        self._computed: dict[str, pd.DataFrame] = {}
        if not any(name in other for name in one):
            raise MeasureError(f"no table is in both results: {one_of(one)}, and {one_of(other)}; measure the same")

    @cached_property
    def tables(self) -> list[str]:
        """The names of the tables that both results have and that can be compared."""
        return [name for name in self.one if name in self.other and _comparable(self.one[name]) and _comparable(self.other[name])]

    @property
    def left_out(self) -> list[str]:
        """The tables that only one result has, or in which several rows have the same keys."""
        return [name for name in {**self.one.tables, **self.other.tables} if name not in self.tables]

    @property
    def same_texts(self) -> bool:
        """Whether both results were measured on the same examples."""
        one, other = (
            (result.provenance["seen"].get("examples"), result.provenance["seen"].get("digest")) for result in self._both
        )
        return one == other

    @property
    def vectors(self) -> str | None:
        """Where the two runs read different vectors of a text, which ones, in a line; None if they do not, or it is not known."""
        read = [vector_read(result.provenance) for result in self._both]
        if None in read or read[0] == read[1]:
            return None
        one, other = (described(result.provenance) for result in self._both)
        return f"{DIFFER}: {one}, and {other}"

    @cached_property
    def findings(self) -> list[str]:
        """How many numbers were compared and how many of their intervals leave out 0; and the largest of these differences."""
        from conoscope.results.largest import largest

        return largest(self)

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self.tables:
            raise NotMeasuredError(f"{name!r} is not compared{nearest(str(name), self.tables)}; compared: {one_of(self.tables)}")
        if name not in self._computed:
            found = _with_intervals(_merged(self.one[name], self.other[name]), *self._items(name))
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

    def __repr__(self) -> str:
        """Both runs and the tables that are compared, in one line."""
        one, other = (measured(result.provenance) for result in self._both)
        first, second = self.names or ("this", "other")
        note = "" if self.vectors is None else f"; {self.vectors}"
        tables = f"{len(self)} tables, {', '.join(self.tables[:SHOWN])}"
        return printable(f"<Differences {second} minus {first}; {first}: {one}; {second}: {other}; {tables}{note}>")

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

    def _items(self, name: str) -> "tuple[pd.DataFrame | None, str]":
        """The values of each item in both results, paired, None if the results do not keep them; and why other rows are not."""
        if not self.same_texts:
            return None, OTHER_TEXTS
        frames = [frame for result in self._both if (frame := _items_of(result, name)) is not None]
        if len(frames) < 2:
            return None, NOT_KEPT
        keys = [column for column in frames[0].columns if column != "value"]
        sizes = [frame.groupby(keys[:-1], dropna=False)["value"].transform("size") for frame in frames]
        counted = [frame.assign(items=size) for frame, size in zip(frames, sizes, strict=True)]
        paired = counted[0].merge(counted[1], on=keys, suffixes=("", "_other"))
        paired["common"] = paired.groupby(keys[:-1], dropna=False)["value"].transform("size")
        whole = (paired["items"] == paired["common"]) & (paired["items_other"] == paired["common"])
        return paired[whole][[*keys, "value", "value_other"]], OTHER_ITEMS


def _items_of(result: "Result", name: str) -> "pd.DataFrame | None":
    """The value of each item of a table's means: the last key column names the item."""
    import pandas as pd

    table, colon, options = name.partition(":")
    if table in ITEMS:
        return _rows_of_items(result, f"{ITEMS[table]}{colon}{options}")
    from conoscope.measures.by_example import by_example

    rows = pd.DataFrame(by_example(name, result.provenance["measures"], result.tally))
    return None if rows.empty else _once(rows[[*(c for c in rows if c not in ("example", "value")), "example", "value"]])


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
    keys = [key for key in _keys(one) if key in _keys(other)]
    columns = [*keys, "value", "sd", "n"]
    both = one[columns].merge(other[columns], on=keys, suffixes=("", "_other"))
    both = both.rename(columns={"value_other": "other_value", "n_other": "other_n"})
    both["difference"] = both["other_value"].astype(float) - both["value"].astype(float)
    return both


def _with_intervals(both: "pd.DataFrame", items: "pd.DataFrame | None", why: str) -> "pd.DataFrame":
    keys = list(both.columns[: list(both.columns).index("value")])
    found = _unpaired(both, why)
    if items is not None:
        found = _paired(found, items, keys)
    return found[[*keys, "value", "other_value", "difference", "low", "high", "n", "other_n", "interval"]]


def _unpaired(both: "pd.DataFrame", why: str) -> "pd.DataFrame":
    """Welch's intervals, from both standard deviations; none where a value is not a mean."""
    import numpy as np
    from scipy.stats import t

    with np.errstate(all="ignore"):
        parts = [
            (both[sd].astype(float) ** 2 / both[n].astype(float)).to_numpy() for sd, n in (("sd", "n"), ("sd_other", "other_n"))
        ]
        spread = parts[0] + parts[1]
        counts = [both[n].astype(float).to_numpy() - 1 for n in ("n", "other_n")]
        freedom = spread**2 / sum(part**2 / count for part, count in zip(parts, counts, strict=True))
        half = np.where(spread == 0, 0.0, t.ppf(LEVEL, freedom) * np.sqrt(spread))
    known = np.isfinite(half)
    return both.assign(
        low=np.where(known, both["difference"] - half, np.nan),
        high=np.where(known, both["difference"] + half, np.nan),
        interval=np.where(known, why, NO_MEAN),
    )


def _paired(both: "pd.DataFrame", items: "pd.DataFrame", keys: Sequence[str]) -> "pd.DataFrame":
    """The same with paired intervals where the means of the items are the values of the table."""
    import numpy as np
    from scipy.stats import t

    ours = [column for column in items.columns[:-3] if column in keys]
    items = items.astype({column: both[column].dtype for column in ours})
    apart = items.assign(apart=items["value_other"] - items["value"]).groupby(ours, dropna=False, as_index=False)
    of_items = apart.agg(one=("value", "mean"), two=("value_other", "mean"), spread=("apart", "std"), items=("apart", "size"))
    found = both.merge(of_items, on=ours, how="left")
    same = np.isclose(found["one"], found["value"].astype(float)) & np.isclose(found["two"], found["other_value"].astype(float))
    same &= (found["items"] > 1).to_numpy()
    half = t.ppf(LEVEL, (found["items"] - 1).where(same)) * found["spread"] / np.sqrt(found["items"])
    what = items.columns[-3]
    named = [f"paired, {count:.0f} {what}s" for count in found["items"].fillna(0)]
    return found.assign(
        low=np.where(same, found["difference"] - half, found["low"]),
        high=np.where(same, found["difference"] + half, found["high"]),
        interval=np.where(same, named, found["interval"]),
    )
