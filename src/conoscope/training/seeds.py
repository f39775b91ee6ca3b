"""train_seeds(): the same training with several seeds, and a table of their scores."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.common.errors import OutputError
from conoscope.corpora import Corpus
from conoscope.corpora.base import digest_of
from conoscope.training.encoding import labelled
from conoscope.training.memo import Memo
from conoscope.training.resuming import differ, identity, of_data
from conoscope.training.settings import Training
from conoscope.training.trainer import train

SCORES = ("accuracy", "macro_f1", "loss")


def train_seeds(
    splits: Callable[[int], dict[str, Corpus]], out: str | Path, settings: Training, seeds: Sequence[int]
) -> pd.DataFrame:
    """Train once for each seed, in `out/seed-N`, and return a table of scores. With `resume`, finished runs are kept.

    The table has a row for each seed and split, then means and standard deviations over seeds.
    """
    rows, memo = [], Memo()
    for seed in dict.fromkeys(seeds):
        folder = Path(out) / f"seed-{seed}"
        for split, scores in _scores(splits, folder, replace(settings, seed=seed), memo).items():
            rows.append({"seed": str(seed), "split": split, **{name: scores[name] for name in SCORES}})
    frame = pd.DataFrame(rows)
    groups = frame.groupby("split", sort=False)[list(SCORES)]
    summary = [groups.mean().assign(seed="mean"), *([groups.std().assign(seed="sd")] if len(seeds) > 1 else [])]
    return pd.concat([frame, *(part.reset_index() for part in summary)], ignore_index=True)[["seed", "split", *SCORES]]


def _scores(
    splits: Callable[[int], dict[str, Corpus]], folder: Path, settings: Training, memo: Memo
) -> dict[str, dict[str, Any]]:
    finished = folder / "training.json"
    if not (settings.resume and finished.is_file()):
        return train(splits(settings.seed), folder, settings, memo=memo).scores
    try:
        facts = json.loads(finished.read_text(encoding="utf-8"))
        scores: dict[str, dict[str, Any]] = facts["scores"]
        before = {**facts["settings"], **of_data({name: corpus["digest"] for name, corpus in facts["corpora"].items()})}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"{finished} cannot be read: {error}; remove the folder to train again") from error
    data = {name: digest_of(labelled(corpus)) for name, corpus in splits(settings.seed).items()}
    differ(before, {**identity(settings), **of_data(data)}, str(folder))
    return scores
