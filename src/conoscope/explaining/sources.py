"""Sources: where evaluated scores come from: maps of a model, files of other tools, and chance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from conoscope.capture.device import USUAL, dtype_name
from conoscope.capture.loading import LoadedModel
from conoscope.capture.text_vector import text_vector
from conoscope.common.errors import DataError, ModelError
from conoscope.common.keywords import names_in
from conoscope.common.options import refuse_twice
from conoscope.common.pooling import Pool
from conoscope.corpora import Corpus, Example
from conoscope.explaining.base import request
from conoscope.explaining.chance import random_scores
from conoscope.explaining.evaluation import fingerprint
from conoscope.explaining.records import DEFAULT_MAPS, Explaining, Explanation, explain
from conoscope.explaining.scorefiles import ScoreFile, joined_names, read_scores

CHANCE = "random"


@dataclass(frozen=True)
class Sources:
    """The sources of scores: a model with its maps, score files, and always the random map."""

    model: LoadedModel | None
    maps: tuple[str, ...]
    files: tuple[ScoreFile, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: LoadedModel | None, maps: str | Sequence[str] | None, files: Sequence[str | Path]) -> "Sources":
        """The sources for these maps and files; without either, DEFAULT_MAPS of the model."""
        chosen = names_in(maps) if maps is not None else DEFAULT_MAPS if model is not None and not files else ()
        if chosen and model is None:
            raise ModelError(f"the map {chosen[0]} is made with a model, and none is given; give one before the corpus")
        refuse_twice("map", chosen)
        own = tuple(dict.fromkeys((*chosen, CHANCE)))
        for name in own:
            request(name)
        read = tuple(read_scores(path) for path in files)
        return cls(model, own, read, tuple(joined_names(own, read)))

    def explanations(self, corpus: Corpus, options: Explaining) -> Iterator[Explanation]:
        """Yield each example with its scores from every source."""
        computed = map(_by_chance, corpus) if self.model is None else explain(self.model, corpus, self.maps, options)
        for explanation in computed:
            example = explanation.example
            from_files = {name: scores for file in self.files for name, scores in file.of(example).items()}
            yield replace(explanation, maps={**explanation.maps, **from_files})

    def described(self, options: Explaining) -> dict[str, Any]:
        """The settings that determine the scores, for provenance: files by name and hash, and the options of the maps."""
        return {
            "scores": [fingerprint(file.path) for file in self.files],
            "limit": options.limit,
            "max_length": options.max_length,
            "dtype": USUAL if self.model is None else dtype_name(self.model.module),
            "word_score": options.word_score,
        }

    def pool(self, options: Explaining) -> Pool | None:
        """The pooling that says which rows maps are read from; None if no map reads rows."""
        if self.model is None or not any(request(name).method.needs for name in self.maps):
            return None
        return text_vector(self.model, options.pool)

    def missing(self, name: str, corpus: Corpus) -> DataError:
        """The error for a map without a score for any evaluated sentence."""
        path = next((file.path for file in self.files if name in file.names), None)
        where = f"{path}: " if path is not None else ""
        return DataError(f"{where}the map {name} has no score for any evaluated sentence of {corpus}; check ids and texts")


def _by_chance(example: Example) -> Explanation:
    scores: Float[np.ndarray, " w"] = random_scores(example).numpy()
    return Explanation(example, None, np.ones(len(scores), dtype=bool), {CHANCE: scores})
