"""Judging: means over seeds, whether a published figure can be excluded, and whether a claim holds."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from conoscope.common.errors import MeasureError
from conoscope.studies.base import BOUNDS, Claim, Published
from conoscope.studies.binomial import share_found
from conoscope.studies.contrasts import COLUMNS
from conoscope.studies.intervals import Scale, interval, prediction

TOO_FEW, NOT_JUDGED = "too few seeds", "not judged"
"""What a case is called without three runs, and without three that pass the gate."""
UNDECIDED = (TOO_FEW, NOT_JUDGED)
OURS = ("ours", "sd", "n", "low", "high", "half", "holds")
"""Columns of ours beside a published figure; of all runs, where some are gated, with `all_` before."""


@dataclass(frozen=True)
class Finding:
    """The mean over runs with its 95 % interval, in how many runs the value is above the bound, and whether it surely is."""

    mean: float | None
    low: float | None
    high: float | None
    above: int
    seeds: int
    answer: str


@dataclass(frozen=True)
class Case:
    """A claim in one case: the finding over the runs that pass the gate, how many do not, and the finding over all runs."""

    case: str
    passing: Finding
    gated: int
    over_all: Finding

    def flat(self) -> dict[str, Any]:
        """The case as one row: what all runs say has names with `all_`."""
        every = {f"all_{name}": value for name, value in asdict(self.over_all).items()}
        return {"case": self.case, **asdict(self.passing), "gated": self.gated, **every}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, over all cases and for each case: on runs that pass the gate, and on all runs."""

    name: str
    statement: str
    bound: float
    answer: str
    all_answer: str
    cases: list[Case]


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per number: mean, sd and count over seeds, and the values by seed."""
    keys = [column for column in rows if column not in ("seed", "value")]
    averages = []
    for key, group in rows.groupby(keys, sort=False, dropna=False):
        by_seed = {str(seed): value for seed, value in zip(group["seed"], group["value"], strict=True)}
        numbers: dict[str, Any] = {"mean": group["value"].mean(), "sd": group["value"].std(), "n": len(group), "values": by_seed}
        averages.append({**dict(zip(map(str, keys), key if isinstance(key, tuple) else (key,), strict=True)), **numbers})
    return pd.DataFrame(averages)


def compared(
    means: pd.DataFrame, published: Iterable[Published], texts: int = Scale.texts, passing: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Each published figure beside ours, and whether the 95 % prediction interval of a single run of ours excludes it.

    `passing` are the same means, row by row, of the runs that pass the gate: figures are compared with these, and again with
    those of all runs, in columns with `all_`. Where less than three pass, the figure is not judged. Figures of accuracy, by which
    runs are gated, are compared with all runs.
    """
    comparisons, kept = [], {} if passing is None else dict(passing.iterrows())
    for one in published:
        here = means
        for name, value in one.keys.items():
            here = here[here[name] == value] if name in here else here.iloc[:0]
        if one.model is not None and "layer" in here:
            here = here[here["model"] == one.model] if "layer" in one.keys else here[here["layer"].isna()]
        if len(here) == 1 or one.model is not None:
            comparisons += [
                _beside(one, ours, texts) if passing is None else _beside_both(one, ours, kept[place], texts)
                for place, ours in here.iterrows()
            ]
    return pd.DataFrame(comparisons)


def scale_of(quantity: object, texts: int) -> Scale:
    """The scale of a quantity, by the first part of its name."""
    return Scale(BOUNDS.get(first_part(quantity)), texts)


def _beside_both(one: Published, every: "pd.Series[Any]", passing: "pd.Series[Any]", texts: int) -> dict[str, Any]:
    """The figure beside the runs that pass the gate, how many do not, and beside all runs."""
    over_all = _beside(one, every, texts)
    kept = over_all if is_ungated(one) else _beside(one, passing, texts)
    if kept["holds"] == TOO_FEW != over_all["holds"]:
        kept = {**kept, "holds": NOT_JUDGED}
    beside = {f"all_{name}": over_all[name] for name in OURS if name in over_all}
    return {**kept, "gated": over_all["n"] - kept["n"], **beside}


def is_ungated(one: Published) -> bool:
    """Whether a figure is of accuracy itself, which is judged on all runs."""
    return first_part(one.keys.get("quantity")) == "accuracy"


def first_part(quantity: object) -> str:
    """The first part of a quantity's name, which says what it is."""
    return str(quantity).split(".")[0]


def _beside(one: Published, ours: "pd.Series[Any]", texts: int) -> dict[str, Any]:
    of = {} if one.model is None else {"model": ours["model"]}
    beside = {
        **of,
        **one.keys,
        "published": one.value,
        "tag": one.tag,
        "ours": ours["mean"],
        "sd": ours.get("sd"),
        "n": int(ours["n"]),
    }
    if one.model is not None and one.model != ours["model"]:
        return {**beside, "holds": f"of {one.model}"}
    scale = scale_of(one.keys.get("quantity"), texts)
    reach = prediction(list(ours["values"].values()), scale, one.tolerance)
    if reach is None:
        return {**beside, "holds": TOO_FEW}
    low, high = reach
    # A printed 1.000 is, like ours, within half a text of the end.
    there = scale.bounded(scale.unbounded(one.value))
    inside = low <= one.value <= high or low <= there <= high
    return {**beside, "low": low, "high": high, "half": (high - low) / 2, "holds": "not excluded" if inside else "excluded"}


def judged(claim: Claim, rows: pd.DataFrame, passing: pd.DataFrame | None = None, texts: int = Scale.texts) -> Verdict:
    """Whether a claim holds over seeds: in every case, in some, or in none.

    `passing` are the rows of the runs that pass the gate, by default all. Where less than three do, the case is not judged.
    """
    contrast = contrasted(claim, rows)
    kept = contrast if passing is None or not claim.gated else contrasted(claim, passing)
    try:
        cases = [_case(str(name), group, kept, claim, texts) for name, group in contrast.groupby("case", sort=False)]
    except MeasureError as error:
        raise MeasureError(f"the claim {claim.name}: {error}") from error
    answers = (_answer([case.passing.answer for case in cases]), _answer([case.over_all.answer for case in cases]))
    return Verdict(claim.name, claim.statement, claim.above, *answers, cases)


def contrasted(claim: Claim, rows: pd.DataFrame) -> pd.DataFrame:
    """The values of a claim by case and seed; none if the rows lack what it contrasts."""
    none = pd.DataFrame(columns=COLUMNS)
    try:
        return none if rows.empty else claim.contrast(rows)
    except (LookupError, ValueError):
        # Columns that are not there, or nothing to join.
        return none


def _case(name: str, every: pd.DataFrame, kept: pd.DataFrame, claim: Claim, texts: int) -> Case:
    passing = kept[kept["case"].astype(str) == name]
    gated = len(every) - len(passing)
    over_all, finding = _finding(every["value"].tolist(), claim, texts), _finding(passing["value"].tolist(), claim, texts)
    if finding.answer == TOO_FEW != over_all.answer:
        finding = Finding(finding.mean, None, None, finding.above, finding.seeds, NOT_JUDGED)
    return Case(name, finding, gated, over_all)


def _finding(values: list[float], claim: Claim, texts: int) -> Finding:
    mean, above = sum(values) / len(values) if values else None, sum(value > claim.above for value in values)
    scale = Scale(claim.within, texts, claim.coarse)
    bounds = share_found(values) if claim.found else interval(values, scale, claim.counts)
    if bounds is None:
        return Finding(mean, None, None, above, len(values), TOO_FEW)
    low, high = bounds
    answer = "yes" if low > claim.above else "no" if high < claim.above else "unclear"
    return Finding(mean, low, high, above, len(values), answer)


def _answer(answers: Sequence[str]) -> str:
    decided, holding = [answer for answer in answers if answer not in UNDECIDED], answers.count("yes")
    beside = f", {count} not judged" if (count := answers.count(NOT_JUDGED)) else ""
    if not decided:
        return NOT_JUDGED if beside else "cannot be told"
    if holding == len(answers):
        return "holds"
    if holding:
        return f"holds in {holding} of {len(answers)} cases{beside}"
    return ("does not hold" if all(answer == "no" for answer in decided) else "unclear") + beside
