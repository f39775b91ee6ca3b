"""What is printed of an attribution."""

from collections.abc import Mapping

import pandas as pd

from conoscope.causes.attribution_split import LIMIT
from conoscope.causes.attribution_texts import GROUPS

MOST = 8
"""How many single parts are shown."""
SHOWN = ("part", "site", "layer", "head", "value", "share", "sd")
TOGETHER = {
    "words": "embeddings of words",
    "positions": "embeddings of positions",
    "types": "embeddings of types",
    "heads": "heads",
    "forward": "feed-forward parts",
    "biases": "biases",
    "activation": "nonlinear functions at 0",
    "remainder": "remainder",
    "difference": "difference",
}
"""Groups of parts in words."""
SITES = {
    "embeddings": "before layer 1",
    "output": "of the attention output, layer {}",
    "forward": "of the feed-forward part, layer {}",
    "norm": "of the normalisation, layer {}",
    "layer": "within layer {}",
    "classifier": "of the classifier",
}
"""Where a bias is added."""


def told(table: pd.DataFrame, seen: Mapping[str, int], dtype: str) -> str:
    """The groups of parts, the parts with the largest means, and what is left in the text where most is."""
    lines = ["mean logit of the predicted class minus that of the next, and the share that each part adds"]
    groups = table.assign(group=table["part"].map({**GROUPS, "remainder": "remainder", "difference": "difference"}))
    together = groups.groupby("group", sort=False)[["value", "share"]].sum()
    numbers = {name: (float(value), float(share)) for name, value, share in together.itertuples()}
    lines += [f"{words:32}{_numbers(*numbers[name])}" for name, words in TOGETHER.items() if name in numbers]
    single = table[~table["part"].isin(["remainder", "difference"])]
    first = single.loc[single["value"].abs().sort_values(ascending=False, kind="stable").index].head(MOST)
    lines += ["", "the largest single parts"]
    for part, site, layer, head, value, share, sd in first[list(SHOWN)].itertuples(index=False):
        lines.append(f"{named(part, site, layer, head):48}{_numbers(value, share)}   sd {sd:.3f}")
    if len(single) > MOST:
        lines.append(f"... and {len(single) - MOST} more")
    left = float(table["largest"][table["part"] == "remainder"].iloc[0])
    lines += [
        "",
        f"in each of {seen['examples']} texts the parts add up to the difference: at most {left:.1g} of Σ|parts| is left",
    ]
    if left > LIMIT:
        lines.append(f"that is rounding in {dtype}; --dtype float64 leaves less")
    if seen["truncated"]:
        lines.append(f"{seen['truncated']} of {seen['examples']} texts were cut off at the longest input")
    return "\n".join(lines)


def named(part: str, site: str, layer: object, head: object) -> str:
    """A part in words."""
    if part == "head":
        return f"head {layer}.{head}"
    if part == "forward":
        return f"feed-forward part of layer {layer}"
    if part in ("bias", "activation"):
        what = "bias" if part == "bias" else "nonlinear function at 0"
        return f"{what} {SITES[site].format(layer)}"
    return TOGETHER[part]


def _numbers(value: float, share: float) -> str:
    return f"{value:9.3f}{share:8.1%}"
