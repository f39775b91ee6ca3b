"""train_seeds(): the same training with several seeds, and a table of their scores."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from conoscope.corpora import Corpus
from conoscope.training.memo import Memo
from conoscope.training.settings import Training
from conoscope.training.trainer import train

SCORES = ("accuracy", "macro_f1", "loss")


def train_seeds(
    splits: Callable[[int], dict[str, Corpus]], out: str | Path, settings: Training, seeds: Sequence[int]
) -> pd.DataFrame:
    """Train once for each seed, in `out/seed-N`, and return a table of scores. Finished runs are kept.

    The table has a row for each seed and split, then means and standard deviations over seeds.
    """
    rows, memo = [], Memo()
    for seed in dict.fromkeys(seeds):
        folder = Path(out) / f"seed-{seed}"
        for split, scores in train(splits(seed), folder, replace(settings, seed=seed), memo=memo).scores.items():
            rows.append({"seed": str(seed), "split": split, **{name: scores[name] for name in SCORES}})
    frame = pd.DataFrame(rows)
    groups = frame.groupby("split", sort=False)[list(SCORES)]
    summary = [groups.mean().assign(seed="mean"), *([groups.std().assign(seed="sd")] if len(seeds) > 1 else [])]
    return pd.concat([frame, *(part.reset_index() for part in summary)], ignore_index=True)[["seed", "split", *SCORES]]
