"""Measure: a named reading of some statistics, with its bounds, its source and its options."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from conoscope.errors import MeasureError, one_of, options_of
from conoscope.tally import Need


@dataclass(frozen=True)
class Reading:
    """What a measure found in one layer: numbers by head, or one where `head` is not a key.

    `more` holds further columns of the measure's own.
    """

    value: Float[Tensor, " h"]
    sd: Float[Tensor, " h"]
    n: Int[Tensor, " h"]
    more: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One block of a measure's table: the columns that name it, whether it is by head, and the statistics it reads."""

    keys: Mapping[str, str]
    by_head: bool
    needs: Mapping[str, Need]


@dataclass(frozen=True)
class Measure:
    """A named reading: `parts` says what it needs under some options, `read` turns the sums into numbers."""

    name: str
    read: Callable[..., Reading]
    parts: Callable[..., Iterable[Part]]
    within: tuple[float, float]
    source: str
    choices: Mapping[str, tuple[str, ...]]

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.read.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True)
class Request:
    """A measure with its options chosen, as in `sim` or `sim:mask=real`."""

    measure: Measure
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The measure's name and the options that were given."""
        given = [f"{key}={value}" for key, value in self.options.items()]
        return f"{self.measure.name}:{','.join(given)}" if given else self.measure.name

    def parts(self) -> list[Part]:
        """The blocks of its table."""
        defaults = {key: choices[0] for key, choices in self.measure.choices.items()}
        return list(self.measure.parts(**{**defaults, **self.options}))

    def needs(self) -> Iterator[Need]:
        """The statistics that its blocks read."""
        return (need for part in self.parts() for need in part.needs.values())


CATALOGUE: dict[str, Measure] = {}


def reads(
    parts: Callable[..., Iterable[Part]], within: tuple[float, float], source: str, **choices: tuple[str, ...]
) -> Callable[[Callable[..., Reading]], Callable[..., Reading]]:
    """Enter a reading into the catalogue under its own name; the first of an option's choices is its default."""

    def enter(read: Callable[..., Reading]) -> Callable[..., Reading]:
        CATALOGUE[read.__name__] = Measure(read.__name__, read, parts, within, source, choices)
        return read

    return enter


def request(text: str) -> Request:
    """The measure and options that a text such as `sim:mask=real` asks for."""
    name, _, given = text.partition(":")
    if name not in CATALOGUE:
        raise MeasureError(f"no measure {name!r}; known measures: {one_of(CATALOGUE)}")
    measure, options = CATALOGUE[name], {}
    for assignment in filter(None, given.split(",")):
        key, _, value = assignment.partition("=")
        if value not in measure.choices.get(key, ()):
            raise MeasureError(f"{name} has no option {assignment!r}; known: {options_of(measure.choices)}")
        options[key] = value
    return Request(measure, options)


def describe(measure: Measure) -> dict[str, Any]:
    """What `conoscope list measures` shows."""
    low, high = measure.within
    return {
        "measure": measure.name,
        "within": f"[{low:g}, {high:g}]",
        "options": options_of(measure.choices),
        "what": measure.summary,
        "source": measure.source,
    }
