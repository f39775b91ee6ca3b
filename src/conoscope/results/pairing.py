"""95 % intervals of differences: of the same items, of groups of the same texts, or from both standard deviations."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Shaped

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.replicates import Replicates

LEVEL = 0.975
NO_MEAN = "none: the value is not a mean of items, or is one of a single item"
OTHER_ITEMS = "unpaired: it is not known of the same items in both"
SOME_ITEMS = "unpaired: the sums keep values of some texts only"
ONE_GROUP = "unpaired: its texts are in one group"


def unpaired(both: "pd.DataFrame", why: str, of_items: bool) -> "pd.DataFrame":
    """Welch's intervals, from both standard deviations; none where a value is not a mean. `of_items`: whether they are those of
    the items of which the value is the mean. `units`: on how many items an interval rests, the fewer of the two."""
    from scipy.stats import t

    with np.errstate(all="ignore"):
        parts = [
            (both[sd].astype(float) ** 2 / both[n].astype(float)).to_numpy() for sd, n in (("sd", "n"), ("sd_other", "other_n"))
        ]
        spread = parts[0] + parts[1]
        counts = [both[n].astype(float).to_numpy() - 1 for n in ("n", "other_n")]
        freedom = spread**2 / sum(part**2 / count for part, count in zip(parts, counts, strict=True))
        half = np.where(spread == 0, 0.0, t.ppf(LEVEL, freedom) * np.sqrt(spread))
    known = np.isfinite(half) & of_items
    return both.assign(
        low=np.where(known, both["difference"] - half, np.nan),
        high=np.where(known, both["difference"] + half, np.nan),
        interval=np.where(known, why, NO_MEAN),
        units=both[["n", "other_n"]].astype(float).min(axis=1),
    )


def by_items(both: "pd.DataFrame", one: "pd.DataFrame", other: "pd.DataFrame") -> "pd.DataFrame":
    """Intervals of the differences of the items (columns: keys, the item's name, `value`) where they are the same in both, and
    their means are the values of the table."""
    from scipy.stats import t

    *ours, what = [column for column in one.columns if column != "value"]
    known = {column: both[column].dtype for column in ours}
    one, other = (each.astype(known) for each in (one, other))
    paired = one.merge(other, on=[*ours, what], suffixes=("", "_other"))
    paired["apart"] = paired["value_other"] - paired["value"]
    found = both
    for name, each in (("items", one), ("items_other", other)):
        found = found.merge(
            each.groupby(ours, dropna=False, as_index=False).agg(**{name: ("value", "size")}), on=ours, how="left"
        )
    means = {"one": ("value", "mean"), "two": ("value_other", "mean"), "spread": ("apart", "std"), "common": ("apart", "size")}
    found = found.merge(paired.groupby(ours, dropna=False, as_index=False).agg(**means), on=ours, how="left")
    whole = np.isclose(found["one"], found["value"].astype(float)) & np.isclose(found["two"], found["other_value"].astype(float))
    same = ((found["items"] == found["common"]) & (found["items_other"] == found["common"])).to_numpy()
    there = (found["items"].notna() | found["items_other"].notna()).to_numpy()
    count = found["common"].where(same & whole & (found["common"] > 1).to_numpy())
    half = t.ppf(LEVEL, count - 1) * found["spread"] / np.sqrt(count)
    why = np.where(there & found["low"].notna(), np.where(same, SOME_ITEMS, OTHER_ITEMS), found["interval"])
    named = [f"paired, {number:.0f} {what}s" for number in count.fillna(0)]
    return _with(both, half.to_numpy(float), count.to_numpy(float), named, why)


def by_groups(both: "pd.DataFrame", one: "Replicates", other: "Replicates") -> "pd.DataFrame":
    """Intervals of the differences without each group of texts, where the sums of all items are kept by group."""
    known = {column: both[column].dtype for column in one.keys}
    place = both[[*one.keys]]
    for name, each in (("_row", one), ("_row_other", other)):
        rows = each.keys.astype(known).assign(**{name: np.arange(len(each.keys))})
        place = place.merge(rows, on=[*one.keys], how="left")
    there = (place["_row"].notna() & place["_row_other"].notna()).to_numpy()
    first, second = (place[name].fillna(0).astype(int).to_numpy() for name in ("_row", "_row_other"))
    without = other.values[second] - one.values[first]
    left_out = [
        both[name].astype(float).to_numpy()[:, None] - each.n[rows]
        for name, each, rows in (("n", one, first), ("other_n", other, second))
    ]
    for name, each in zip(("n", "other_n"), left_out, strict=True):
        there = there & (each.sum(-1) == both[name].astype(float).to_numpy())
    of_row = (left_out[0] > 0) | (left_out[1] > 0)
    half, groups = half_width(without, of_row & there[:, None]), of_row.sum(-1)
    why = np.where(there & both["low"].notna().to_numpy(), ONE_GROUP, both["interval"])
    both = both.assign(units=np.where(there, groups, both["units"]))
    return _with(both, half, groups.astype(float), [f"paired, {number} groups of texts" for number in groups], why)


def half_width(without: Float[np.ndarray, "rows groups"], of_row: Bool[np.ndarray, "rows groups"]) -> Float[np.ndarray, " rows"]:
    """Half the width of a 95 % interval, from the values without each group: by the jackknife over the groups that have items
    of a row, with Student's t; NaN for fewer than two groups."""
    from scipy.stats import t

    groups = of_row.sum(-1)
    with np.errstate(all="ignore"):
        mean = np.where(of_row, without, 0.0).sum(-1) / groups
        squares = np.where(of_row, (without - mean[:, None]) ** 2, 0.0).sum(-1)
        half: Float[np.ndarray, " rows"] = t.ppf(LEVEL, groups - 1) * np.sqrt(squares * (groups - 1) / groups)
    return np.where(groups > 1, half, np.nan)


def _with(
    both: "pd.DataFrame",
    half: Float[np.ndarray, " rows"],
    units: Float[np.ndarray, " rows"],
    named: list[str],
    why: Shaped[np.ndarray, " rows"],
) -> "pd.DataFrame":
    """The same with intervals of these half-widths where they are known, and on how many units each rests."""
    known = np.isfinite(half)
    return both.assign(
        low=np.where(known, both["difference"] - half, both["low"]),
        high=np.where(known, both["difference"] + half, both["high"]),
        interval=np.where(known, named, why),
        units=np.where(known, units, both["units"]),
    )
