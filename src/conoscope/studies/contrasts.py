"""Contrasts: from rows to a number for each case and seed, which a claim says to lie above some bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["case", "seed", "value"]


def where(rows: "pd.DataFrame", **keys: Any) -> "pd.DataFrame":
    """The rows that have these values; a column that is not there has none."""
    for name, value in keys.items():
        rows = rows[rows[name] == value] if name in rows else rows.iloc[:0]
    return rows


def difference(more: "pd.DataFrame", less: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """`more` minus `less`, of the rows that share `by` and the seed; a case for each `by`."""
    keys = [*by, "seed"]
    both = more[[*keys, "value"]].merge(less[[*keys, "value"]], on=keys, suffixes=("", "_less"))
    return cases(both.assign(value=both["value"] - both["value_less"]), by)


def correlation(rows: "pd.DataFrame", one: str, other: str, over: Sequence[str], by: Sequence[str]) -> "pd.DataFrame":
    """Spearman's correlation of two quantities over the rows that share `by` and the seed, and differ in `over`."""
    import pandas as pd

    keys = [*by, "seed"]
    first, second = (rows[rows["quantity"] == quantity][[*keys, *over, "value"]] for quantity in (one, other))
    both = first.merge(second, on=[*keys, *over], suffixes=("", "_other"))
    ranks = both.assign(**{name: both.groupby(keys)[name].rank() for name in ("value", "value_other")})
    found = [(*_tuple(key), group["value"].corr(group["value_other"])) for key, group in ranks.groupby(keys, sort=False)]
    return cases(pd.DataFrame(found, columns=[*keys, "value"]), by)


def cases(frame: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """The rows as they are; a case for each `by`."""
    names = [words(dict(zip(by, values, strict=True))) for values in frame[list(by)].itertuples(index=False, name=None)]
    return frame.assign(case=names)[COLUMNS].dropna(subset="value")


def words(keys: dict[str, Any]) -> str:
    """What tells a case, in words: texts by themselves, numbers with what they are of."""
    return ", ".join(value if isinstance(value, str) else f"{name} {value:g}" for name, value in keys.items())


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
