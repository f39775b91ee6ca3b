"""Bounds: the allowed values of an option, defined once for Python and for the command line."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from conoscope.common.errors import MeasureError

MANY = 10**18
"""Larger than any number of texts, tokens or epochs."""
LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Bounds:
    """The numbers that an option accepts: whole or not, from `least` (excluded if `open`) to `most`.

    `description` completes "is not …" in an error message. NaN and infinity are never within bounds.
    """

    description: str
    whole: bool
    least: float
    most: float = LARGEST
    open: bool = False

    def holds(self, value: object) -> bool:
        """Whether a value is a number within these bounds; True and False are not numbers."""
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value
        return bool(self.least <= number <= self.most) and not (self.open and number == self.least)

    def read(self, text: str) -> Any:
        """Parse a text as a number; ValueError if it is not a number within these bounds."""
        try:
            value = int(text) if self.whole and text.isdecimal() else None if self.whole else float(text)
        except ValueError:
            value = None
        if not self.holds(value):
            raise ValueError(f"{text!r} is not {self.description}")
        return value


POSITIVE = Bounds("a whole number from 1", True, 1, MANY)
COUNT = Bounds("a whole number from 0", True, 0, MANY)
SEED = Bounds(f"a whole number from 0 to {2**32 - 1}", True, 0, 2**32 - 1)
SHARDS = Bounds("a whole number from 1 to 1000000", True, 1, 10**6)
RATE = Bounds("a number above 0", False, 0, open=True)
ANGLE = Bounds("an angle in degrees above 0, at most 180", False, 0, 180, open=True)
PORT = Bounds("the number of a port, from 0 to 65535", True, 0, 65535)
WEIGHT = Bounds("a number from 0", False, 0)


def within(name: str, value: Any, bounds: Bounds) -> Any:
    """The value as a plain int or float; MeasureError if it is out of bounds."""
    if not bounds.holds(value):
        raise MeasureError(f"{name}={value!r} is not {bounds.description}; give one")
    return int(value) if isinstance(value, Integral) else float(value)


def check(options: Any, names: Sequence[str] = (), **bounds: Bounds) -> None:
    """Check the fields of a frozen dataclass of options, and convert them to plain types.

    A number must lie within its bounds. A field whose default is True or False must be one of them. A field whose default is a
    string must be a string; fields in `names` may also be paths, and become strings. None is allowed where it is the default.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        if value is None and field.default is None:
            continue
        if field.name in bounds:
            value = within(field.name, value, bounds[field.name])
        elif isinstance(field.default, bool):
            if not isinstance(value, bool):
                raise MeasureError(f"{field.name}={value!r} is neither True nor False; give one of them")
        elif field.name in names:
            value = named(field.name, value)
        elif isinstance(field.default, str) and not isinstance(value, str):
            raise MeasureError(f"{field.name}={value!r} is no text; give one, as in {field.name}={field.default!r}")
        object.__setattr__(options, field.name, value)


def named(what: str, value: object) -> str:
    """A name or a path as a string; MeasureError for anything else."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str):
            return text
    raise MeasureError(f"{what}={value!r} is neither a name nor a path; give one")


def ordered(name: str, value: object, bounds: Bounds) -> tuple[int, int]:
    """Two whole numbers, the first at most the second, as in (1, 4): part 1 of 4, or the range from 1 to 4."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(bounds.holds, value)):
        first, last = map(int, value)
        if first <= last:
            return first, last
    raise MeasureError(f"{name}={value!r} is not two whole numbers, the first from 1 to the second; give such as (1, 4)")
