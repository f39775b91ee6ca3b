"""Bounds: what an option may be, said once for Python and for the command line."""

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
    """The numbers that an option may be: whole or not, from `least` (or above it, where it is `open`) to `most`.

    NaN and infinity are never within.
    """

    said: str
    whole: bool
    least: float
    most: float = LARGEST
    open: bool = False

    def holds(self, value: object) -> bool:
        """Whether a value is such a number; True and False are none."""
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value
        return bool(self.least <= number <= self.most) and not (self.open and number == self.least)

    def read(self, text: str) -> Any:
        """The number that a text says; ValueError where it says none of these."""
        try:
            value = int(text) if self.whole and text.isdecimal() else None if self.whole else float(text)
        except ValueError:
            value = None
        if not self.holds(value):
            raise ValueError(f"{text!r} is not {self.said}")
        return value


POSITIVE = Bounds("a whole number from 1", True, 1, MANY)
COUNT = Bounds("a whole number from 0", True, 0, MANY)
SEED = Bounds(f"a whole number from 0 to {2**32 - 1}", True, 0, 2**32 - 1)
SHARDS = Bounds("a whole number from 1 to 1000000", True, 1, 10**6)
RATE = Bounds("a number above 0", False, 0, open=True)
WEIGHT = Bounds("a number from 0", False, 0)


def within(name: str, value: Any, bounds: Bounds) -> Any:
    """The value as a plain int or float; refused in one line where it is out of bounds."""
    if not bounds.holds(value):
        raise MeasureError(f"{name}={value!r} is not {bounds.said}; give one")
    return int(value) if isinstance(value, Integral) else float(value)


def check(options: Any, names: Sequence[str] = (), **bounds: Bounds) -> None:
    """Refuse fields of a frozen dataclass of options that are not what they should be, and make plain what is.

    A number must lie within its bounds; what is True or False by default must be one of them; a text must be a text, save that
    the fields in `names` may be paths too, and become texts. None is allowed where it is the default.
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
    """A name or a path as text."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str):
            return text
    raise MeasureError(f"{what}={value!r} is neither a name nor a path; give one")


def ordered(name: str, value: object, bounds: Bounds) -> tuple[int, int]:
    """Two numbers, the first not above the second, as in (1, 4): a part of how many, or from one to another."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(bounds.holds, value)):
        first, last = map(int, value)
        if first <= last:
            return first, last
    raise MeasureError(f"{name}={value!r} is not two whole numbers, the first from 1 to the second; give such as (1, 4)")
