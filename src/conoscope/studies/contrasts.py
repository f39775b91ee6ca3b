"""Contrasts: from rows to one number per case and seed, which a claim compares with a bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["case", "seed", "value"]


def where(rows: "pd.DataFrame", **keys: Any) -> "pd.DataFrame":
    """The rows that have these values; none if a column does not exist."""
    for name, value in keys.items():
        rows = rows[rows[name] == value] if name in rows else rows.iloc[:0]
    return rows


def difference(more: "pd.DataFrame", less: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """`more` minus `less`, for rows with the same `by` and seed; one case for each `by`."""
    keys = [*by, "seed"]
    both = more[[*keys, "value"]].merge(less[[*keys, "value"]], on=keys, suffixes=("", "_less"))
    return cases(both.assign(value=both["value"] - both["value_less"]), by)


def correlation(rows: "pd.DataFrame", one: str, other: str, over: Sequence[str], by: Sequence[str]) -> "pd.DataFrame":
    """Spearman's correlation of two quantities over `over`, for rows with the same `by` and seed."""
    import pandas as pd

    keys = [*by, "seed"]
    first, second = (rows[rows["quantity"] == quantity][[*keys, *over, "value"]] for quantity in (one, other))
    both = first.merge(second, on=[*keys, *over], suffixes=("", "_other"))
    ranks = both.assign(**{name: both.groupby(keys)[name].rank() for name in ("value", "value_other")})
    values = [(*_tuple(key), group["value"].corr(group["value_other"])) for key, group in ranks.groupby(keys, sort=False)]
    return cases(pd.DataFrame(values, columns=[*keys, "value"]), by)


def cases(frame: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """The rows with a column `case` that names their `by`; rows without a value are dropped."""
    import pandas as pd

    names = [words(dict(zip(by, values, strict=True))) for values in frame[list(by)].itertuples(index=False, name=None)]
    # Without rows, names would be numbers, and a contrast could not add words to them.
    return frame.assign(case=pd.Series(names, frame.index, dtype=object))[COLUMNS].dropna(subset="value")


def words(keys: dict[str, Any]) -> str:
    """The keys of a case in words: texts alone, numbers with their names."""
    return ", ".join(value if isinstance(value, str) else f"{name} {value:g}" for name, value in keys.items())


def ranges(seeds: Sequence[int]) -> str:
    """Seeds in words: seeds 0 to 4, 7."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and parts[-1][-1] == seed - 1:
            parts[-1] = [parts[-1][0], seed]
        else:
            parts.append([seed])
    shown = ", ".join(" to ".join(map(str, part)) for part in parts)
    return f"seed{'s' if len(seeds) > 1 else ''} {shown}"


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
