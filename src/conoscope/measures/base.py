"""Measure: a named function of summed statistics that yields one or more tables, with its bounds, source and options."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.common.errors import MeasureError, one_of
from conoscope.common.keywords import nearest
from conoscope.common.options import options_of, read_options
from conoscope.measures.needs import Need


@dataclass(frozen=True)
class Reading:
    """The values of a measure in one layer: one a head, or a single one if the table is not by head.

    `more`: further columns of the measure. `keys`: the columns that distinguish this reading from others of the same layer.
    """

    value: Float[Tensor, " h"]
    sd: Float[Tensor, " h"]
    n: Int[Tensor, " h"]
    more: Mapping[str, Tensor | Sequence[Any]] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_one(cls, value: Any, sd: Any = math.nan, n: Any = 1, **more: Any) -> "Reading":
        """A reading of one row; n is 0 if the value is NaN."""
        numbers = torch.tensor([float(value)], dtype=torch.float64), torch.tensor([float(sd)], dtype=torch.float64)
        count = 0 if math.isnan(float(value)) else int(n)
        return cls(*numbers, torch.tensor([count]), {name: [item] for name, item in more.items()})

    def with_keys(self, **keys: Any) -> "Reading":
        """The same values with further keys."""
        return replace(self, keys={**self.keys, **keys})


QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
"""The columns of a distribution, with their levels."""
Read = Callable[..., Reading | Iterable[Reading]]


@dataclass(frozen=True)
class Part:
    """One block of a table: its key columns, whether it is by head, the statistics it reads (`needs`), and further arguments of
    the read function (`given`)."""

    keys: Mapping[str, str]
    by_head: bool
    needs: Mapping[str, Need]
    given: Mapping[str, Any] = field(default_factory=dict)


Parts = Callable[..., Iterable[Part]]


@dataclass(frozen=True)
class Table:
    """One table of a measure: `parts` lists its blocks and their needs under some options, `read` turns sums into values.

    `across`: `read` receives all layers at once, each statistic as a mapping from layer to sums, and its readings have `layer`
    among their keys. `explored`: only the explorer draws it; reports and differences leave it out.
    """

    name: str
    read: Read
    parts: Parts
    within: tuple[float, float]
    across: bool
    explored: bool = False

    @cached_property
    def required(self) -> set[str]:
        """The statistics that `read` requires: its parameters without a default."""
        return {name for name, given in signature(self.read).parameters.items() if given.default is given.empty}

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.read.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Measure:
    """A named measure; its first table has the same name. `labels`: it needs labelled texts. `on_request`: it is measured only if
    requested by name."""

    name: str
    tables: list[Table]
    source: str
    labels: bool
    choices: Mapping[str, tuple[str, ...]]
    on_request: bool = False


@dataclass(frozen=True)
class Request:
    """A measure with its options chosen, as in `sim` or `sim:mask=real`."""

    measure: Measure
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The measure's name with the given options."""
        return self.measure.name + self._given

    @property
    def _given(self) -> str:
        given = [f"{key}={value}" for key, value in self.options.items()]
        return f":{','.join(given)}" if given else ""

    def tables(self) -> Iterator[tuple[str, Table, list[Part]]]:
        """Each table: its name with the given options, the Table, and its blocks."""
        chosen = {**{key: choices[0] for key, choices in self.measure.choices.items()}, **self.options}
        for table in self.measure.tables:
            yield table.name + self._given, table, list(table.parts(**chosen))

    def needs(self) -> Iterator[Need]:
        """The statistics that the blocks read."""
        return (need for _, _, parts in self.tables() for part in parts for need in part.needs.values())


CATALOGUE: dict[str, Measure] = {}


def reads(
    parts: Parts,
    within: tuple[float, float],
    source: str,
    labels: bool = False,
    across: bool = False,
    on_request: bool = False,
    **choices: tuple[str, ...],
) -> Callable[[Read], Read]:
    """Decorator that registers a read function as a measure under its own name; an option's first choice is its default."""

    def register(read: Read) -> Read:
        table = Table(read.__name__, read, parts, within, across)
        CATALOGUE[table.name] = Measure(table.name, [table], source, labels, choices, on_request)
        return read

    return register


def also_reads(
    name: str, parts: Parts, within: tuple[float, float], across: bool = False, explored: bool = False
) -> Callable[[Read], Read]:
    """Decorator that registers a read function as a further table of a measure, by a name such as `vector_norms.histogram`."""

    def register(read: Read) -> Read:
        CATALOGUE[name.partition(".")[0]].tables.append(Table(name, read, parts, within, across, explored))
        return read

    return register


def request(text: str) -> Request:
    """The measure and options that a text such as `sim:mask=real` names."""
    name, _, given = text.partition(":")
    if name not in CATALOGUE:
        raise MeasureError(f"no measure {name!r}{nearest(name, CATALOGUE)}; known measures: {one_of(CATALOGUE)}")
    measure = CATALOGUE[name]
    return Request(measure, read_options(name, given, measure.choices))


def describe(measure: Measure) -> dict[str, Any]:
    """The description of a measure for `conoscope list measures`."""
    low, high = measure.tables[0].within
    return {
        "measure": measure.name,
        "within": f"{'[' if low > -math.inf else '('}{low:g}, {high:g}{']' if high < math.inf else ')'}",
        "options": options_of(measure.choices),
        "what": measure.tables[0].summary,
        "tables": [f"{table.name}: {table.summary}" for table in measure.tables[1:]],
        "source": measure.source,
    }
