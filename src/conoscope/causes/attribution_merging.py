"""Merging: the attribution of a whole corpus from the tables of its shards."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.causes.attribution_tables import INDEX, first_texts, typed, with_share
from conoscope.causes.attribution_telling import told
from conoscope.causes.effects import Effects
from conoscope.common.errors import OutputError
from conoscope.results.merging import joined
from conoscope.results.store import first_shard, read_index, read_provenance, read_table

SINGLE = ("attribution.texts", "attribution.words")
"""The tables of single texts."""
PARTS, KINDS = ["measure", "part", "site", "layer", "head"], ["measure", "part", "layer", "head", "kind"]


def effects_from(tables: Mapping[str, pd.DataFrame], provenance: Mapping[str, Any]) -> Effects:
    """The tables with what is printed of them."""
    text = told(tables["attribution"], provenance["seen"], provenance["options"]["dtype"])
    return Effects(tables, provenance, {name: INDEX[name] for name in tables}, text)


def holds_attribution(folder: str | Path) -> bool:
    """Whether a folder was written by an attribution."""
    return "attribution" in (read_index(Path(folder)) or {})


def merge_attributions(folders: Iterable[str | Path]) -> Effects:
    """The attribution of a whole corpus from those of its shards, in any order; OutputError if they are not parts of one."""
    paths = sorted(map(Path, folders), key=first_shard)
    provenance = reduce(joined, (read_provenance(path) for path in paths))
    found: dict[str, list[pd.DataFrame]] = {}
    for path in paths:
        for name in read_index(path) or {}:
            found.setdefault(name, []).append(read_table(path, name))
    if any(not whole[PARTS].equals(found["attribution"][0][PARTS]) for whole in found["attribution"]):
        raise OutputError("these attributions are of other heads or layers; merge those of one model")
    whole = with_share(_pooled(found["attribution"], PARTS, ["size"], ["largest"]))
    kinds = _pooled(found["attribution.kinds"], KINDS, ["tokens"], [])
    texts = {name: first_texts(found[name]) for name in SINGLE if name in found}
    return effects_from({"attribution": whole, "attribution.kinds": kinds, **texts}, provenance)


def _pooled(frames: Sequence[pd.DataFrame], keys: list[str], means: list[str], largest: list[str]) -> pd.DataFrame:
    """One table of rows with these keys: means over all texts, their standard deviations, and the largest of some columns.

    A row that a part lacks is of what was 0 but for rounding there.
    """
    first = max(frames, key=len)
    texts = [int(frame["n"].iloc[0]) for frame in frames]
    whole, aligned = sum(texts), [first[keys].merge(frame, on=keys, how="left") for frame in frames]

    def mean(column: str) -> Any:
        return sum(frame[column].fillna(0.0) * n for frame, n in zip(aligned, texts, strict=True)) / whole

    value = mean("value")
    # The standard deviation of one text is not defined, and nothing lies apart from its mean.
    within = sum(frame["sd"].fillna(0.0) ** 2 * (n - 1) for frame, n in zip(aligned, texts, strict=True))
    between = sum((frame["value"].fillna(0.0) - value) ** 2 * n for frame, n in zip(aligned, texts, strict=True))
    sd = ((within + between) / (whole - 1)) ** 0.5 if whole > 1 else float("nan")
    tops = {name: pd.concat([frame[name] for frame in aligned], axis=1).max(axis=1) for name in largest}
    pooled = first.assign(value=value, sd=sd, n=whole, **{name: mean(name) for name in means}, **tops)
    return typed(pooled.reset_index(drop=True))
