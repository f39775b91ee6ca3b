"""Judging: means over seeds, whether a published figure is consistent with our runs, and whether a claim holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import pandas as pd

from conoscope.studies.base import Claim, Published

FEWEST = 3
"""Smallest number of seeds for a verdict."""


@dataclass(frozen=True)
class Case:
    """A claim in one case: the mean over seeds with a 95 % interval, and for how many seeds the value is above the bound."""

    case: str
    mean: float
    low: float | None
    high: float | None
    above: int
    seeds: int
    answer: str


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, over all cases and for each case."""

    name: str
    statement: str
    bound: float
    answer: str
    cases: list[Case]


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean over seeds, by Student's t; None for too few seeds."""
    if len(values) < FEWEST:
        return None
    series = pd.Series(values)
    half = t_quantile(len(values) - 1) * float(series.std()) / sqrt(len(values))
    return float(series.mean()) - half, float(series.mean()) + half


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per number: mean, sd and count over seeds, and the values by seed."""
    keys = [column for column in rows if column not in ("seed", "value")]
    averages = []
    for key, group in rows.groupby(keys, sort=False, dropna=False):
        by_seed = {str(seed): value for seed, value in zip(group["seed"], group["value"], strict=True)}
        numbers: dict[str, Any] = {"mean": group["value"].mean(), "sd": group["value"].std(), "n": len(group), "values": by_seed}
        averages.append({**dict(zip(map(str, keys), key if isinstance(key, tuple) else (key,), strict=True)), **numbers})
    return pd.DataFrame(averages)


def compared(means: pd.DataFrame, published: Iterable[Published]) -> pd.DataFrame:
    """Each published figure beside ours. It holds if it lies in the 95 % prediction interval of a single run of ours."""
    comparisons = []
    for one in published:
        here = means
        for name, value in one.keys.items():
            here = here[here[name] == value] if name in here else here.iloc[:0]
        if one.model is not None and "layer" in here:
            here = here[here["model"] == one.model] if "layer" in one.keys else here[here["layer"].isna()]
        if len(here) == 1 or one.model is not None:
            comparisons += [_beside(one, ours) for _, ours in here.iterrows()]
    return pd.DataFrame(comparisons)


def _beside(one: Published, ours: "pd.Series[Any]") -> dict[str, Any]:
    of = {} if one.model is None else {"model": ours["model"]}
    return {**of, **one.keys, "published": one.value, "tag": one.tag, "ours": ours["mean"], "sd": ours["sd"],
            "n": int(ours["n"]), "holds": _alike(one, ours)}  # fmt: skip


def _alike(one: Published, ours: "pd.Series[Any]") -> str:
    count = int(ours["n"])
    if one.model is not None and one.model != ours["model"]:
        return f"of {one.model}"
    if count < FEWEST:
        return "too few seeds"
    reach = t_quantile(count - 1) * float(ours["sd"]) * sqrt(1 + 1 / count) + one.tolerance
    return "yes" if abs(one.value - float(ours["mean"])) <= reach else "no"


def judged(claim: Claim, rows: pd.DataFrame) -> Verdict:
    """Whether a claim holds over seeds: in every case, in some, or in none."""
    contrast = claim.contrast(rows)
    cases = [_case(str(name), group["value"].tolist(), claim.above) for name, group in contrast.groupby("case", sort=False)]
    return Verdict(claim.name, claim.statement, claim.above, _answer([case.answer for case in cases]), cases)


def _case(name: str, values: list[float], bound: float) -> Case:
    mean, above = sum(values) / len(values), sum(value > bound for value in values)
    if (bounds := interval(values)) is None:
        return Case(name, mean, None, None, above, len(values), "too few seeds")
    low, high = bounds
    return Case(name, mean, low, high, above, len(values), "yes" if low > bound else "no" if high < bound else "unclear")


def _answer(answers: Sequence[str]) -> str:
    decided, holding = [answer for answer in answers if answer != "too few seeds"], answers.count("yes")
    if not decided:
        return "cannot be told"
    if holding == len(answers):
        return "holds"
    if holding:
        return f"holds in {holding} of {len(answers)} cases"
    return "does not hold" if all(answer == "no" for answer in decided) else "unclear"
