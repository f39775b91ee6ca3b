"""The verbs `corpus` and `example`: the texts of the corpus with what is known of each, searched, filtered and sorted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from conoscope.exploring import cones, tables
from conoscope.exploring.corpus_list import CorpusList
from conoscope.exploring.inputs import name_in, whole
from conoscope.exploring.replies import Handler, Reply, Turn
from conoscope.exploring.requests import LARGEST, RequestError
from conoscope.exploring.shelf import Shelf

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

SORTS = ("order", "farthest", "margin")
PAGE = 200
SHOWN = 300
"""How many characters of a text a row has."""
PATIENCE = 0.3
"""Seconds that a page waits for texts that are being read."""
NO_CORPUS = "no texts are open; name a corpus, as in conoscope explore MODEL --corpus reviews.csv"


@dataclass(frozen=True)
class Facts:
    """What is known of each text: its label and the predicted class among `labels`, -1 where that is not known, the probability
    of that class, how far it is above the next one's, and the angle in degrees to the direction of the text's own class."""

    labels: tuple[str, ...]
    gold: Int[np.ndarray, " n"]
    predicted: Int[np.ndarray, " n"]
    probability: Float[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]
    angle: Float[np.ndarray, " n"]

    @property
    def wrong(self) -> Bool[np.ndarray, " n"]:
        """Which texts are known to be predicted wrongly."""
        wrong: Bool[np.ndarray, " n"] = (self.gold >= 0) & (self.predicted >= 0) & (self.gold != self.predicted)
        return wrong


def corpus(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """A page of the texts that a search and filters leave, in an order."""
    texts = _texts(session.shelf)
    offset, limit = whole(params.get("offset", 0), "offset", 0, LARGEST), whole(params.get("limit", PAGE), "limit", 0, PAGE)
    query, sort = params.get("query") or "", name_in(params.get("sort") or "order", "order of texts", SORTS)
    chosen = params.get("filter") or {}
    if not isinstance(query, str) or not isinstance(chosen, Mapping):
        raise RequestError("a query is a text, and filter an object such as {errors: true}")
    model = whole(params.get("model", 0), "model", 0, max(0, len(session.models) - 1))
    texts.wait(offset + limit, PATIENCE)
    facts = facts_of(session.shelf, texts, model)
    numbers = texts.found(query)
    numbers = numbers[numbers < len(facts.gold)]
    numbers = _sorted(numbers[_fitting(facts, chosen)[numbers]], facts, sort)
    rows = [_row(texts, facts, number) for number in numbers[offset : offset + limit].tolist()]
    return Reply(
        {"total": len(numbers), "rows": rows, "labels": list(facts.labels), "cut": texts.cut, "filling": filling_of(session)}
    )


def filling_of(session: "Session") -> dict[str, Any] | None:
    """What is still being found, and how far that is; None if all is."""
    texts = session.shelf.texts
    if texts is not None and not texts.done:
        return {"doing": "reading texts", "done": len(texts.examples), "of": texts.corpus.size}
    return session.shelf.filling.state


def _texts(shelf: Shelf) -> CorpusList:
    if shelf.texts is None:
        raise RequestError(NO_CORPUS)
    shelf.texts.start()
    if shelf.texts.error is not None and not shelf.texts.examples:
        raise RequestError(shelf.texts.error)
    return shelf.texts


def facts_of(shelf: Shelf, texts: CorpusList, model: int) -> Facts:
    """What is known of each text that is read, from the tables of results and from predictions of the model."""
    gold = texts.labels()
    labels, numbers = shelf.labels(model)
    unknown = np.full(len(gold), np.nan)
    facts = Facts(labels, gold, np.full(len(gold), -1), unknown, unknown.copy(), unknown.copy())
    _add_points(facts, shelf, texts, model)
    found = shelf.filling.predictions.get(model)
    if found is not None:
        known = np.flatnonzero(found.predicted[: len(gold)] >= 0)
        facts.predicted[known] = numbers[found.predicted[known]]
        facts.probability[known], facts.margin[known] = found.probability[known], found.margin[known]
    return facts


def _add_points(facts: Facts, shelf: Shelf, texts: CorpusList, model: int) -> None:
    """What the sampled examples of results are known to be, in their last layer."""
    index = {label: number for number, label in enumerate(facts.labels)}
    for one in shelf.results:
        points = None if one.model not in (None, model) else cones.table_or_none(one, "class_cones.points")
        if points is None:
            continue
        last = points[(points["site"] == "hidden") & (points["layer"] == points["layer"].max())]
        columns = (last[name].to_numpy() if name in last else np.full(len(last), np.nan) for name in ("angle", "predicted"))
        for name, angle, predicted in zip(last["example"], *columns, strict=True):
            number = texts.number_of(str(name))
            if number is not None and number < len(facts.gold) and np.isnan(facts.angle[number]):
                facts.angle[number] = angle
                facts.predicted[number] = index.get(str(predicted), -1)


def _fitting(facts: Facts, chosen: Mapping[str, Any]) -> Bool[np.ndarray, " n"]:
    """Which texts the filters leave."""
    fits = np.ones(len(facts.gold), dtype=bool)
    for name, known in (("label", facts.gold), ("predicted", facts.predicted)):
        if chosen.get(name) is not None:
            fits &= known == whole(chosen[name], name, 0, len(facts.labels) - 1)
    return fits & facts.wrong if chosen.get("errors") else fits


def _sorted(numbers: Int[np.ndarray, " k"], facts: Facts, sort: str) -> Int[np.ndarray, " k"]:
    """The texts in this order; those of which nothing is known come last, as they are in the corpus."""
    if sort == "order":
        return numbers
    keys = -facts.angle[numbers] if sort == "farthest" else facts.margin[numbers]
    return numbers[np.argsort(keys, kind="stable")]


def _row(texts: CorpusList, facts: Facts, number: int) -> dict[str, Any]:
    example = texts.examples[number]
    whole_text = example.text if example.pair is None else f"{example.text} / {example.pair}"
    return {
        "number": number,
        "id": example.id,
        "text": whole_text if len(whole_text) <= SHOWN else f"{whole_text[: SHOWN - 1]}…",
        "label": _number(facts.gold[number]),
        "predicted": _number(facts.predicted[number]),
        "probability": float(facts.probability[number]),
        "angle": float(facts.angle[number]),
    }


def _number(value: int) -> int | None:
    return int(value) if value >= 0 else None


def example(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """One text of the corpus, whole, by its number or its id."""
    texts = _texts(session.shelf)
    number, name = params.get("number"), params.get("id")
    if number is None and isinstance(name, str):
        texts.wait()
        number = texts.number_of(name)
        if number is None:
            raise RequestError(f"no text of the id {name} is in {texts.corpus}; open the corpus that was measured")
    texts.wait(whole(number, "number", 0, LARGEST) + 1)
    if not texts.examples:
        raise RequestError(f"{texts.corpus} has no texts")
    found = texts.examples[whole(number, "number", 0, len(texts.examples) - 1)]
    rationale = None if found.rationale is None else [bool(flag) for flag in found.rationale]
    gold = None if found.label is None else _number(int(texts.labels()[whole(number, "number", 0, LARGEST)]))
    return Reply(
        {"text": found.text, "pair": found.pair, "label": gold, "rationale": rationale, "id": found.id, "number": number}
    )


VERBS: dict[str, Handler] = {"corpus": corpus, "example": example, **cones.VERBS, **tables.VERBS}
"""The verbs of results and texts."""
