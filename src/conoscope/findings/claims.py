"""Claims as data: a value with its verdict, its controls and its n; every form of the report is written from the same claim."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any, SupportsFloat

from conoscope.figures.base import NORMAL

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Number:
    """A number of a table, and how it is printed."""

    value: float
    text: str

    def __str__(self) -> str:
        return self.text


def percent(share: SupportsFloat, digits: int = 1) -> Number:
    """A share, printed as a percentage."""
    value = 100 * float(share)
    return Number(value, f"{value:.{digits}f} %")


def decimal(value: SupportsFloat, digits: int = 2) -> Number:
    """A number, printed with decimals; what rounds to nothing has no sign."""
    shown = f"{float(value):.{digits}f}"
    return Number(float(value), shown.lstrip("-") if not shown.strip("-0.") else shown)


def whole(count: SupportsFloat) -> Number:
    """A count, with a comma for each thousand."""
    return Number(float(count), f"{float(count):,.0f}")


def probability(p: SupportsFloat) -> Number:
    """A p-value of two significant digits."""
    return Number(float(p), f"{float(p):.2g}")


@dataclass(frozen=True)
class Control:
    """What a value must be read against: a name, a number, and `more`, which says how that number was made."""

    name: str
    number: Number
    more: tuple[str | Number, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.number}" + (f" ({''.join(map(str, self.more))})" if self.more else "")


@dataclass(frozen=True)
class Claim:
    """What is claimed of one run, and of what (`of`: how many texts, which mean).

    `sentence` and `short` state the same values and the same verdict, alone and beside other runs. Both are completed here with
    all of the evidence: interval, controls, and of how many. So no form of a report can leave a control out.
    """

    sentence: str
    short: str
    values: tuple[Number, ...]
    verdict: str = ""
    interval: tuple[Number, Number] | None = None
    controls: tuple[Control, ...] = ()
    of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for form in (self.sentence, self.short):
            assert self.verdict in form, f"the verdict {self.verdict!r} is missing in {form!r}"
            assert all(str(value) in form for value in self.values), f"a value is missing in {form!r}"

    @property
    def evidence(self) -> str:
        """Interval, controls and counts, in brackets; nothing where there are none."""
        interval = ["95 % interval {} to {}".format(*self.interval)] if self.interval is not None else []
        parts = [*interval, *self.of, *map(str, self.controls)]
        return f" ({', '.join(parts)})" if parts else ""

    def alone(self) -> str:
        """The claim as a sentence of its own."""
        return f"{self.sentence}{self.evidence}."

    def beside(self, run: str) -> str:
        """The claim in short, to stand beside those of other runs."""
        return f"{run}: {self.short}{self.evidence}"


@dataclass(frozen=True)
class Answer:
    """The claims of the runs by name, and what they are all about, which is said once where there are several."""

    subject: str
    claims: Mapping[str, Claim]


Facts = Mapping[str, Mapping[str, Any]]
"""What is known of each run beside its tables: a row of the table `runs` by name of the run."""
Look = Callable[["pd.DataFrame", Facts], Answer | None]
"""From a table of one run or of several, with a column `run`, to what can be said of it."""


def in_common(frame: "pd.DataFrame", keys: list[str]) -> "pd.DataFrame":
    """The rows whose keys every run has: what can be compared like with like."""
    runs = frame.groupby(keys, dropna=False)["run"].transform("nunique")
    return frame[runs == frame["run"].nunique()]


def largest(frame: "pd.DataFrame", column: str) -> Any:
    """The row with the largest number in a column, of equal ones the first."""
    return frame.sort_values(column, ascending=False, kind="stable").iloc[0]


def largest_of_runs(frame: "pd.DataFrame", column: str) -> "pd.DataFrame":
    """The same of each run, in the order of the table."""
    return frame.sort_values(column, ascending=False, kind="stable").drop_duplicates("run").sort_index()


def rows_of(frame: "pd.DataFrame") -> dict[str, Any]:
    """The only row of each run."""
    return {row["run"]: row for _, row in frame.iterrows()}


def mean_over_heads(frame: "pd.DataFrame", keys: list[str]) -> "pd.DataFrame":
    """Of each run and key the row of whole vectors, or the mean over heads where there is none; `heads` says how many."""
    means = {name: (name, "mean") for name in ("value", "baseline", "n") if name in frame}
    there = frame.assign(whole=frame["head"].isna())
    best = there[there["whole"] == there.groupby(["run", *keys])["whole"].transform("max")]
    return best.groupby(["run", *keys], as_index=False, sort=False).agg(**means, heads=("head", "count"))


def lower_end(share: SupportsFloat, n: SupportsFloat) -> float:
    """The lower end of Wilson's 95 % interval of a share of n."""
    p, count, square = float(share), float(n), NORMAL**2
    middle, spread = p + square / (2 * count), NORMAL * (p * (1 - p) / count + square / (4 * count**2)) ** 0.5
    # Rounding may put the end above the share itself: of no right answers it would lie above 0.
    return max(0.0, min(p, float((middle - spread) / (1 + square / count))))


def exceeds(share: SupportsFloat, n: SupportsFloat, other: SupportsFloat, other_n: SupportsFloat) -> bool:
    """Whether a share of n is larger than another that was counted too: Newcombe's 95 % interval of the difference is above 0."""
    difference = float(share) - float(other)
    below, above = float(share) - lower_end(share, n), 1 - lower_end(1 - float(other), other_n) - float(other)
    return difference**2 > below**2 + above**2 and difference > 0


def counted(number: SupportsFloat, one: str, many: str) -> str:
    """How many of something."""
    return f"{whole(number)} {one if float(number) == 1 else many}"


def known(value: Any) -> bool:
    """Whether a cell holds something: neither None nor NaN."""
    import pandas as pd

    return value is not None and value is not pd.NA and not (isinstance(value, float) and isnan(value))


def listed(parts: list[str]) -> str:
    """Parts with commas and an `and`."""
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]


def capital(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]
