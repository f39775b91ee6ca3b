"""Score files: JSON lines with scores for each whitespace word, made by any tool.

Each line identifies its example by "id" or "text" (and "pair") and has "scores", a list, or "maps", lists by name.
`conoscope explain` writes this format, and other tools can easily write it. null stands for a word without a score.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from conoscope.common.errors import DataError, MeasureError, one_of
from conoscope.corpora import Example, Notes
from conoscope.corpora.tables import rows

Scores = tuple[int, Mapping[str, list[float | None]]]
"""The line number of a row, and its scores by map."""


@dataclass
class ScoreFile:
    """The rows of a score file by id and by text, each with its line number and its scores by map."""

    path: Path
    by_id: dict[str, Scores] = field(default_factory=dict)
    by_text: dict[tuple[Any, Any], Scores] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)

    def enter(self, row: Mapping[str, Any], scores: Scores) -> None:
        """Index a row by its id, and by its text unless that is taken; refuse a row that has neither or is there twice."""
        name, key, where = row.get("id"), (row.get("text"), row.get("pair")), f"{self.path}:{scores[0]}"
        named = isinstance(name, (str, int)) and not isinstance(name, bool) and name != ""
        has_text = isinstance(key[0], str) and isinstance(key[1], str | None)
        if not named and not has_text:
            raise DataError(f'{where}: neither "id" nor "text" says of which example the scores are; give one of them')
        if before := self.by_id.get(str(name)) if named else self.by_text.get(key):
            raise DataError(f"{where}: scores of the same example stand on line {before[0]} already; leave one out")
        if named:
            self.by_id[str(name)] = scores
        if has_text:
            self.by_text.setdefault(key, scores)

    def of(self, example: Example) -> dict[str, Float[np.ndarray, " w"]]:
        """The word scores of an example by map; empty if the file does not have the example."""
        row = self.by_id.get(example.id) or self.by_text.get((example.text, example.pair))
        if row is None:
            return {}
        line, maps = row
        for name, scores in maps.items():
            if len(scores) != len(example.words):
                raise DataError(
                    f"{self.path}:{line}: {name!r} has {len(scores)} scores where the example {example.id} has "
                    f"{len(example.words)} words; give one for each whitespace word, of the pair's text after that of the first"
                )
        return {name: np.array([math.nan if s is None else float(s) for s in scores]) for name, scores in maps.items()}


def read_scores(path: str | Path) -> ScoreFile:
    """The score file at this path, read into memory."""
    file = ScoreFile(Path(path))
    for line, row in rows(file.path, Notes()):
        where = f"{file.path}:{line}"
        maps = _maps(row, where, file.path.name.partition(".")[0])
        file.names |= dict.fromkeys(maps)
        file.enter(row, (line, maps))
    if not file.names:
        raise DataError(f'{file.path} has no scores; give JSON lines such as {{"text": "fine soup", "scores": [0.9, 0.1]}}')
    return file


def _maps(row: Mapping[str, Any], where: str, stem: str) -> dict[str, list[float | None]]:
    maps = row.get("maps", {stem: row["scores"]} if "scores" in row else None)
    if not isinstance(maps, dict) or not maps:
        raise DataError(f'{where}: no "scores" (a list) and no "maps" (lists by name); it has {one_of(row)}')
    for name, scores in maps.items():
        if not isinstance(scores, list):
            raise DataError(f"{where}: {name!r} is a {type(scores).__name__} where a list of numbers is expected")
        for score in scores:
            if not (score is None or _is_number(score)):
                raise DataError(f"{where}: {name!r} holds {str(score)[:40]!r}; give a number for each word, or null for none")
    return maps


def _is_number(score: Any) -> bool:
    try:
        return isinstance(score, (int, float)) and not isinstance(score, bool) and not math.isinf(float(score))
    except OverflowError:
        return False


def joined_names(maps: Iterable[str], files: Iterable[ScoreFile]) -> list[str]:
    """The names of all maps of a model and of files; raises if two share a name."""
    names = dict.fromkeys(maps)
    for file in files:
        if twice := [name for name in file.names if name in names]:
            raise MeasureError(
                f"{one_of(twice)} of {file.path} is the name of another map too; rename it in the file, or leave the other out"
            )
        names |= file.names
    return list(names)
