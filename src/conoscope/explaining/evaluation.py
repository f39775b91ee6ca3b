"""Evaluation: the scores of evaluated maps as tidy tables, with their provenance."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from conoscope.capture.loading import LoadedModel
from conoscope.common.pooling import Pool
from conoscope.common.terminal import printable
from conoscope.common.textfiles import as_data_error, readable
from conoscope.common.versions import versions
from conoscope.common.writing import as_output_error
from conoscope.corpora import Corpus
from conoscope.measuring.provenance import command, of_corpus, of_model
from conoscope.results.store import TableInfo, claim, write_provenance, write_tables

INDEX = {
    "plausibility": TableInfo("How well maps agree with the words that were marked.", "words", 1),
    "plausibility.curve": TableInfo("Precision and recall of each map, by how many words are taken.", "words", 1),
    "faithfulness": TableInfo("How the answer changes without the first words of each map.", "words", 2),
    "faithfulness.bins": TableInfo("How the answer changes, by the share of words that are erased.", "words", 2),
}
"""Description of each table."""


@dataclass(frozen=True)
class Evaluation:
    """The tables of an evaluation by name; the first has the columns map, metric, average, value, low, high, n, undefined."""

    tables: Mapping[str, pd.DataFrame]
    provenance: Mapping[str, Any]

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]

    @property
    def remarks(self) -> list[str]:
        """Notes on the numbers: how the model reads its texts, words without a score, a pooling that is not supported."""
        missing, note = self.provenance["seen"].get("words_without_score", {}), self.provenance.get("pool", {}).get("note")
        words = [f"{count} words have no score by the map {name} and are left out" for name, count in missing.items() if count]
        return [*self.provenance.get("notes", ()), *words, *([] if note is None else [note])]

    def save(self, folder: str | Path) -> Path:
        """Write each table as parquet and CSV, and provenance.json."""
        where = claim(folder, self.provenance)
        with as_output_error(where):
            write_provenance(where, self.provenance)
            write_tables(where, self.tables, self.provenance, INDEX)
        return where

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        first = next(iter(self.tables.values()))
        blocks = []
        for average, rows in first.groupby("average", sort=False):
            wide = rows.pivot(index="map", columns="metric", values="value")
            wide = wide.loc[rows["map"].unique(), rows["metric"].unique()]
            lines = (
                wide.rename_axis(columns=None, index=f"{average}").to_string(float_format="{:.4f}".format, na_rep="").split("\n")
            )
            blocks.append("\n".join(map(printable, lines)))
        return "\n\n".join(blocks)


def rows_of(
    name: str, estimates: Mapping[tuple[str, str], Mapping[str, float]], counts: Mapping[tuple[str, str], tuple[int, int]]
) -> list[dict[str, Any]]:
    """The table rows of one map: one for each metric and average, with n and how often it was undefined."""
    return [
        {
            "map": name,
            "metric": metric,
            "average": average,
            **{key: None if np.isnan(number) else number for key, number in estimate.items()},
            "n": counts[metric, average][0],
            "undefined": counts[metric, average][1],
        }
        for (metric, average), estimate in estimates.items()
    ]


def provenance_of(
    verb: str,
    loaded: LoadedModel | None,
    corpus: Corpus,
    maps: Sequence[str],
    options: Mapping[str, Any],
    pool: Pool | None = None,
) -> dict[str, Any]:
    """The provenance of an evaluation's tables; two evaluations with equal provenance are the same result."""
    return {
        "model": {} if loaded is None else of_model(loaded),
        "corpus": of_corpus(corpus),
        "measures": [verb, *maps],
        "options": dict(options),
        "shards": ["1/1"],
        "seen": {},
        "versions": versions(),
        "command": command(),
        **({} if pool is None else {"pool": pool.provenance()}),
        "notes": [] if loaded is None else list(loaded.notes),
    }


def fingerprint(path: Path) -> str:
    """A file's name and the SHA-256 of its content."""
    with as_data_error(path), path.open("rb") as file:
        return f"{readable(path.name)} sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
