"""Invented rows of studies of cones, for their tests."""

from collections.abc import Mapping

import pandas as pd

from conoscope.studies.base import Study
from conoscope.studies.judging import judged

SEEDS = range(3)


def rows(keys: Mapping[str, str], *of: Mapping[str, object]) -> pd.DataFrame:
    """Rows of three seeds that differ a little, each after training unless it says otherwise."""
    told = [
        {"stage": "after", **keys, **one, "seed": seed, "value": float(str(one["value"])) + seed / 1000}
        for one in of
        for seed in SEEDS
    ]
    return pd.DataFrame(told)


def quantities(keys: Mapping[str, str], **values: float) -> pd.DataFrame:
    """Rows by stage and quantity; `before_cosine_own` is the quantity cosine.own before training."""
    told = []
    for name, value in values.items():
        stage, _, quantity = name.partition("_")
        told.append({"stage": stage, "quantity": quantity.replace("__", " ").replace("_", "."), "value": value})
    return rows(keys, *told)


def medians(keys: Mapping[str, str], cosines: Mapping[tuple[str, str], float]) -> pd.DataFrame:
    """Median cosines by class of the representative and of the texts."""
    of = ({"quantity": "median.hidden", "class": label, "gold": gold, "value": value} for (label, gold), value in cosines.items())
    return rows(keys, *of)


def mixtures(keys: Mapping[str, str], margins: Mapping[str, float]) -> pd.DataFrame:
    """Cosines of mixtures of values whose own class is nearer than the others by so much."""
    of = [
        {"quantity": f"cosine.{part}.mixed", "mixture": name, "value": 0.4 + (margin if part == "own" else 0)}
        for name, margin in margins.items()
        for part in ("own", "other")
    ]
    return rows(keys, *of)


def answer(study: Study, claim: str, found: pd.DataFrame) -> str:
    """The verdict on a claim of a study."""
    return judged(next(one for one in study.claims if one.name == claim), found).answer
