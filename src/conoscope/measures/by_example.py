"""Values by example: what tables that are means over sampled examples are the means of, so that two runs can be paired."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from torch import Tensor

from conoscope.measures.base import Part, request
from conoscope.measures.class_cones.cosines import cones_of, kinds_of
from conoscope.measures.class_cones.nearest import scored_examples
from conoscope.measures.gates import cells_of, scores_of
from conoscope.measures.tally import Tally
from conoscope.quantities.directionality import NUMBERS
from conoscope.quantities.gates import GRID
from conoscope.sums.statistics import Statistic

Rows = Iterator[dict[str, Any]]
Sums = Mapping[str, Mapping[int, Statistic]]


def by_example(table: str, measures: Iterable[str], tally: Tally) -> list[dict[str, Any]]:
    """A row for each example and key of a table: its keys, `example`, `value`; empty if the sums keep no values by example."""
    rows: list[dict[str, Any]] = []
    for requested in map(request, measures):
        for name, spec, parts in requested.tables():
            if name == table and spec.name in READERS:
                for part in parts:
                    rows += READERS[spec.name](part, {of: dict(tally.of(need)) for of, need in part.needs.items()})
    return rows


def _by_head(layer: int, names: Iterable[str], values: Tensor, **keys: str | int) -> Rows:
    for name, of_heads in zip(names, values.tolist(), strict=True):
        for head, value in enumerate(of_heads, 1):
            yield {"layer": layer, "head": head, **keys, "example": name, "value": value}


def _gates(part: Part, sums: Sums) -> Rows:
    for layer, maps in sums["maps"].items():
        names = maps.texts()  # type: ignore[attr-defined]
        for score, values in scores_of(maps).items():  # type: ignore[arg-type]
            yield from _by_head(layer, names, values, score=score)


def _maps(part: Part, sums: Sums) -> Rows:
    for layer, maps in sums["maps"].items():
        names, each = maps.texts(), cells_of(maps)  # type: ignore[attr-defined, arg-type]
        for query, key in product(range(GRID), repeat=2):
            yield from _by_head(layer, names, each[:, :, query, key], query=query + 1, key=key + 1)


def _directionality(part: Part, sums: Sums) -> Rows:
    for layer, sample in sums.get("sentences", {}).items():
        numbers = sample.values.unflatten(1, (-1, len(NUMBERS)))  # type: ignore[attr-defined]
        yield from _by_head(layer, sample.texts(), numbers[..., 0].double(), **part.keys)  # type: ignore[attr-defined]


def _nearest(part: Part, sums: Sums) -> Rows:
    for layer, cones in cones_of(**sums):
        for kind in kinds_of(cones) if cones.examples is not None else ():
            assert cones.examples is not None
            _, right, scored = scored_examples(cones.cosines(kind), cones.examples)
            names = [name for name, kept in zip(cones.examples.names, scored.tolist(), strict=True) if kept]
            for name, value in zip(names, right.tolist(), strict=True):
                keys = {"layer": layer, **part.keys, "representative": kind, "control": "none"}
                yield {**keys, "example": name, "value": value}


READERS: dict[str, Callable[[Part, Sums], Rows]] = {
    "gates": _gates,
    "gates.maps": _maps,
    "directionality": _directionality,
    "class_cones.nearest": _nearest,
}
"""The tables whose values are means over sampled examples, and what reads the value of each."""
