"""The largest differences of two results: how many numbers were compared, which of them are large, and sentences of a few."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conoscope.common.markup import cut
from conoscope.common.terminal import printable

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.differences import Differences

MOST = 5
"""How many differences have a sentence, each of another table."""
ROWS, OF_TABLE = 12, 3
"""How many differences are listed, and at most how many of one table."""
MAPS = ("gates.maps", "class_maps")
"""Tables whose rows are the pixels of maps."""
FEWEST = 10
"""On how many texts, groups of texts or other items an interval rests at least, to be counted here."""
MISSED = 0.05
"""The share of 95 % intervals that leave out 0 where nothing differs."""
ROUNDING = 1e-5
"""Up to which share of the values a difference may be one of rounding."""
DECIMALS = 3
NUMBERS = ("value", "other_value", "difference", "low", "high", "n", "other_n", "interval", "size", "units")


@dataclass(frozen=True)
class Largest:
    """How many numbers were compared, and the rows whose intervals leave out 0 and whose values differ as they are printed, the
    largest first, at most ROWS of a table.

    `rows` has the columns table, place, value, other_value, difference, low, high, n, other_n, interval and size.
    """

    rows: "pd.DataFrame"
    compared: int
    beyond: int
    """How many of the intervals leave out 0."""
    pixels: int
    """How many numbers of maps have intervals, which are not counted."""
    few: int
    """How many intervals rest on fewer than FEWEST items, which are not counted."""
    alike: int
    """How many differences are the same in all texts, so that an interval says nothing; they are not counted."""

    @property
    def listed(self) -> "pd.DataFrame":
        """The first ROWS, at most OF_TABLE of a table."""
        return self.rows.groupby("table", sort=False).head(OF_TABLE).head(ROWS).reset_index(drop=True)

    @property
    def of_tables(self) -> "pd.DataFrame":
        """The first row of each of the first MOST tables."""
        return self.rows.groupby("table", sort=False).head(1).head(MOST).reset_index(drop=True)


def largest_of(differences: "Differences") -> Largest:
    """The largest of all differences that have intervals, without those of controls."""
    import pandas as pd

    parts, compared, beyond, pixels, few, alike = [_none()], 0, 0, 0, 0, 0
    for name in differences:
        rows = _with_intervals(differences.rated(name))
        if name.partition(":")[0] in MAPS:
            pixels += len(rows)
            continue
        enough = rows[rows["units"] >= FEWEST]
        wide = enough[enough["low"] < enough["high"]]
        rounding = ROUNDING * (wide["value"].abs() + wide["other_value"].abs())
        apart = wide[(wide["low"] > rounding) | (wide["high"] < -rounding)]
        compared, beyond, few = compared + len(wide), beyond + len(apart), few + len(rows) - len(enough)
        alike += len(enough) - len(wide)
        parts.append(_first(name, apart))
    rows = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    rows = rows.sort_values("size", ascending=False, kind="stable", ignore_index=True)
    return Largest(rows, compared, beyond, pixels, few, alike)


def sentences(found: Largest, names: tuple[str, str], vectors: str | None) -> list[str]:
    """How many numbers were compared and how many intervals leave out 0; then the largest difference of at most MOST tables."""
    return [*_counted(found, vectors), *(_sentence(row, names) for _, row in found.of_tables.iterrows())]


def _none() -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(columns=["table", "place", *NUMBERS[:-1]])


def _with_intervals(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows that have an interval of the difference, without those of controls."""
    rows = frame.dropna(subset=["difference", "low", "high"])
    return rows[rows["control"] == "none"] if "control" in rows else rows


def _first(name: str, rows: "pd.DataFrame") -> "pd.DataFrame":
    """The largest rows of a table, with their place in words; none whose two values are printed alike."""
    apart = rows["value"].map(_number) != rows["other_value"].map(_number)
    first = rows[apart].sort_values("size", ascending=False, kind="stable").head(ROWS)
    places = [_place(row) for _, row in first.iterrows()]
    return first[[*NUMBERS[:-1]]].assign(table=name, place=places)[["table", "place", *NUMBERS[:-1]]]


def _counted(found: Largest, vectors: str | None) -> Iterator[str]:
    """In sentences, how much was compared, how much was not, and that the runs read different vectors if they do."""
    head = (
        f"{found.compared:,} numbers were compared, many of them related; {found.beyond:,} of their 95 % intervals leave out 0, "
        f"and about {MISSED * found.compared:,.0f} would where nothing differs: no interval is widened for their number."
        if found.compared
        else "No number has an interval of its difference that counts here."
    )
    parts = (
        f"{found.pixels:,} in maps" if found.pixels else "",
        f"{found.few:,} of fewer than {FEWEST} texts or other items" if found.few else "",
        f"{found.alike:,} that differ by the same, or not at all, in all texts" if found.alike else "",
    )
    apart = ", ".join(part for part in parts if part)
    yield f"{head} Not counted: {apart}." if apart else head
    if vectors is not None:
        yield f"{vectors[0].upper()}{vectors[1:]}."


def _sentence(row: Any, names: tuple[str, str]) -> str:
    """One difference with its place, both values, its direction, its interval, and how that was made."""
    n = f"n {row['n']:,.0f}" if row["n"] == row["other_n"] else f"n {row['n']:,.0f} and {row['other_n']:,.0f}"
    value, other, difference, low, high = (_number(row[column]) for column in NUMBERS[:5])
    return printable(
        f"{row['table']} ({row['place']}) is {value} in {names[0]} and {other} in {names[1]}: {names[1]} minus {names[0]} is "
        f"{difference} ({low} to {high}; {n}; {row['interval']})."
    )


def _place(row: Any) -> str:
    keys = row.drop(list(NUMBERS)).drop("control", errors="ignore").dropna()
    return printable(", ".join(cut(_named(key, value)) for key, value in keys.items()))


def _named(key: str, value: Any) -> str:
    if key in ("layer", "head"):
        return f"{key} {int(value)}"
    return str(value) if key == "site" else f"{key} {value}"


def _number(value: float) -> str:
    return f"{value:.{DECIMALS}g}"
