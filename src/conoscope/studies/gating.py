"""Gating: which runs claims and published figures are judged on, by accuracy and the share of the largest class."""

from collections.abc import Callable, Mapping
from typing import Any

from conoscope.corpora import esnli, hatexplain, imdb, newsgroups, yelp_hat
from conoscope.studies.base import Condition
from conoscope.studies.rows import numbered

KNOWN = (esnli, hatexplain, imdb, newsgroups, yelp_hat)
"""The corpora that fix their classes before anything is read."""
CLASSES: Mapping[str, int] = {module.__name__.rpartition(".")[2]: len(module.LABELS) for module in KNOWN} | {"bistro": 2}
"""The number of classes of corpora."""
ACCURACY = "accuracy"

Record = dict[str, Any]


def is_gated(run: Mapping[str, Any], gate: float) -> bool:
    """Whether a run's model is hardly more often right than the largest class."""
    return bool(run["accuracy"] < run["majority"] + gate)


def scored(record: Mapping[str, Any], condition_of: Callable[[Mapping[str, Any]], Condition | None]) -> list[Record]:
    """The runs, those of earlier records with the accuracy that is among their rows, and with the share of the largest class if
    their condition, as it is now, has as many texts of each class."""
    runs: list[Record] = list(record["runs"])
    if all("majority" in run for run in runs):
        return runs
    found: dict[int | None, list[float]] = {}
    for number, row in numbered(record):
        if row["quantity"] == ACCURACY:
            found.setdefault(number, []).append(row["value"])
    of_run = {number: values[0] for number, values in found.items() if len(values) == 1}
    return [_scored(run, of_run.get(number), condition_of(run)) for number, run in enumerate(runs)]


def _scored(run: Record, accuracy: float | None, condition: Condition | None) -> Record:
    if "majority" in run or accuracy is None:
        return run
    majority = None if condition is None else balanced_majority(condition, run["examples"])
    return {**run, "accuracy": accuracy, **({} if majority is None else {"majority": majority})}


def balanced_majority(condition: Condition, examples: int | None) -> float | None:
    """The share of each class, if the condition takes as many texts of each, and the run had all of these; None if unknown."""
    classes = CLASSES.get(condition.test.partition(":")[0])
    if classes is None or condition.balanced is None or examples != condition.balanced // classes * classes:
        return None
    return 1 / classes
