"""largest(): the few largest differences of two results in sentences, and how many numbers were compared."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from conoscope.common.markup import cut
from conoscope.common.terminal import printable

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.differences import Differences

MOST = 5
"""How many differences have a sentence, each of another table."""
MISSED = 0.05
"""The share of 95 % intervals that leave out 0 where nothing differs."""
ROUNDING = 1e-5
"""Up to which share of the values a difference may be one of rounding."""
DECIMALS = 3
NUMBERS = ("value", "other_value", "difference", "low", "high", "n", "other_n", "interval")


def largest(differences: "Differences") -> list[str]:
    """First how many numbers were compared and how many intervals leave out 0; then of at most five tables the row that lies
    furthest from 0 in widths of its interval, the furthest first."""
    names, firsts, compared, apart = differences.names or ("this", "the other"), [], 0, 0
    for name in differences:
        rows = _with_intervals(differences[name])
        rounding = ROUNDING * (rows["value"].abs() + rows["other_value"].abs())
        beyond = rows[((rows["low"] > rounding) | (rows["high"] < -rounding)) & (rows["low"] < rows["high"])]
        compared, apart = compared + len(rows), apart + len(beyond)
        if len(beyond):
            far = (beyond["difference"] / (beyond["high"] - beyond["low"])).abs()
            place = far.to_numpy().argmax()
            firsts.append((float(far.iloc[place]), name, beyond.iloc[place]))
    firsts.sort(key=lambda each: -each[0])
    return [*_counted(compared, apart, differences.vectors), *(_sentence(name, row, names) for _, name, row in firsts[:MOST])]


def _with_intervals(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows that have an interval of the difference, without those of controls."""
    rows = frame.dropna(subset=["difference", "low", "high"])
    return rows[rows["control"] == "none"] if "control" in rows else rows


def _counted(compared: int, apart: int, vectors: str | None) -> Iterator[str]:
    if not compared:
        yield "No number has an interval of its difference."
        return
    yield (
        f"{compared:,} numbers were compared, many of them related; {apart:,} of their 95 % intervals leave out 0, and about "
        f"{MISSED * compared:,.0f} would where nothing differs: no interval is widened for their number."
    )
    if vectors is not None:
        yield f"{vectors[0].upper()}{vectors[1:]}."


def _sentence(name: str, row: Any, names: tuple[str, str] | Any) -> str:
    """One difference with its place, both values, its interval, and how that was made."""
    keys = row.drop(list(NUMBERS)).drop("control", errors="ignore").dropna()
    place = ", ".join(cut(_named(key, value)) for key, value in keys.items())
    n = f"n {row['n']:,.0f}" if row["n"] == row["other_n"] else f"n {row['n']:,.0f} and {row['other_n']:,.0f}"
    value, other, difference, low, high = (f"{row[column]:.{DECIMALS}g}" for column in NUMBERS[:5])
    text = (
        f"{name} ({place}) is {value} in {names[0]} and {other} in {names[1]}: a difference of {difference} "
        f"({low} to {high}; {n}; {row['interval']})."
    )
    return printable(text)


def _named(key: str, value: Any) -> str:
    if key in ("layer", "head"):
        return f"{key} {int(value)}"
    return str(value) if key == "site" else f"{key} {value}"
