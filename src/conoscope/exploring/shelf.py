"""Shelf: what is open beside the models: results by number, the texts of the corpus, and what is found about them meanwhile."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from conoscope.common.errors import ConoscopeError, one_of
from conoscope.common.textfiles import readable
from conoscope.exploring.class_directions import BySite, class_directions
from conoscope.exploring.corpus_list import CorpusList
from conoscope.exploring.filling import Filling
from conoscope.exploring.inputs import whole
from conoscope.exploring.opening import Opened, OpenResult, short_path
from conoscope.exploring.requests import RequestError
from conoscope.exploring.yielding import Turns
from conoscope.results.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

MEASURE = "type conoscope explore MODEL --corpus CORPUS, and it is measured here, or conoscope measure MODEL CORPUS -o OUT"


class Shelf:
    """The results and texts of a session, and the work that goes on in the background."""

    def __init__(self, opened: Opened, turns: Turns | None = None) -> None:
        self.opened, self.turns = opened, turns or Turns()
        self.texts = None if opened.corpus is None else CorpusList(opened.corpus)
        self.filling = Filling(opened, self.texts, self.turns)
        self._directions: dict[int, tuple[Result, BySite]] = {}

    def start(self) -> None:
        """Begin to read texts, and to find in the background what no result has."""
        if self.texts is not None:
            self.texts.start()
            self.filling.start()

    def close(self) -> None:
        """End all that goes on."""
        self.turns.close()
        if self.texts is not None:
            self.texts.close()

    @property
    def results(self) -> list[OpenResult]:
        """The results that are open, then those that are being measured, one for each model, as far as they are."""
        here = (OpenResult(self._here(model), result, model) for model, result in sorted(self.filling.measured.items()))
        return [*self.opened.results, *here]

    def _here(self, model: int) -> str:
        """The name of what is measured here of a model."""
        return f"{readable(short_path(self.opened.models[model].name))} on {self.opened.corpus}, its first texts"

    def described(self) -> list[dict[str, Any]]:
        """What `hello` says of the results; those that are not there yet have no tables."""
        known = [_described(one) for one in self.results]
        coming = {"source": "", "corpus": str(self.opened.corpus), "tables": []}
        return [*known, *({"name": self._here(model), "model": model, **coming} for model in self.filling.coming)]

    @property
    def corpus(self) -> dict[str, Any] | None:
        """What `hello` says of the corpus; None if there is none."""
        corpus = self.opened.corpus
        return None if corpus is None else {"name": str(corpus), "size": corpus.size, "labels": list(self.labels(0)[0])}

    def labels(self, model: int) -> tuple[tuple[str, ...], Int[np.ndarray, " c"]]:
        """The labels of the corpus and, after them, those that a model has and the corpus has not; and the number of each of the
        model's classes among them."""
        corpus = self.opened.corpus
        names = [] if corpus is None else list(corpus.labels)
        if corpus is None or model >= len(self.opened.models):
            return tuple(names), np.zeros(0, dtype=np.int64)
        loaded = self.opened.models[model]
        try:
            known = {number: label for label, number in loaded.label_numbers(corpus).items()}
        except ConoscopeError:
            known = {}
        numbers = []
        for number, name in enumerate(loaded.labels):
            shown = known.get(number, name)
            names += [] if shown in names else [shown]
            numbers.append(names.index(shown))
        return tuple(names), np.array(numbers, dtype=np.int64)

    def result(self, params: Mapping[str, Any]) -> OpenResult:
        """The result that a request names; RequestError that says what to do if there is none."""
        found = self.results
        number = whole(params.get("result", 0), "result", 0, max(len(found) + len(self.filling.coming), 1) - 1)
        if number >= len(found):
            raise RequestError(f"no result is open: {self.filling.doing or MEASURE}")
        return found[number]

    def table(self, params: Mapping[str, Any], name: str) -> "pd.DataFrame":
        """A table of the result that a request names, by its name with or without the options that it was measured with."""
        return table_of(self.result(params), name)

    def directions(self, number: int) -> BySite:
        """The mean direction of each class in the vectors' own dimensions, by site and layer, of a result by its number.

        NaN for a class without one. ConoscopeError if the result keeps no sums of them.
        """
        result = self.results[number].result
        if number not in self._directions or self._directions[number][0] is not result:
            self._directions[number] = result, class_directions(result)
        return self._directions[number][1]

    def directions_of_model(self, model: int) -> "dict[int, Tensor] | None":
        """The directions of the classes in the hidden layers of a model, of the first result that knows them; else None."""
        for number, one in enumerate(self.results):
            if one.model == model:
                try:
                    if found := self.directions(number).get("hidden"):
                        return found
                except ConoscopeError:
                    continue
        return None


def table_of(one: OpenResult, name: str) -> "pd.DataFrame":
    """A table of a result by its name, or the first of this name with options; RequestError with what to do if there is none."""
    tables = one.result.tables
    found = next((known for known in tables if known.partition(":")[0] == name), None)
    if found is not None:
        return tables[found]
    measure = name.partition(".")[0]
    if any(known.partition(":")[0].partition(".")[0] == measure for known in tables):
        raise RequestError(f"{one.name} has no table {name}: an earlier version measured it, or it was empty; measure again")
    raise RequestError(f"{measure} was not measured in {one.name}; it has {one_of(tables)}; measure again with -m {measure}")


def _described(one: OpenResult) -> dict[str, Any]:
    corpus = one.result.provenance["corpus"]
    of = ":".join(str(part) for part in (corpus.get("name"), corpus.get("split")) if part)
    return {"name": one.name, "source": one.path, "model": one.model, "corpus": of, "tables": list(one.result.tables)}
