"""Options of corpora, measures and maps: what each may be, and how they are written, `key=value,key=value`."""

import re
from collections.abc import Iterable, Mapping

from conoscope.common.errors import MeasureError

PLACEHOLDERS = {
    "N": r"(?=\d{1,9}$)0*[1-9]\d*",
    "TEXT": r".*",
    "LAYER.HEAD+...": r"[1-9]\d*\.[1-9]\d*(\+[1-9]\d*\.[1-9]\d*)*",
}
"""Values of an option that stand for whatever matches: a whole number from 1, of nine digits at most; any text; heads."""


def takes(known: Iterable[str], value: str) -> bool:
    """Whether an option with these values can have this one."""
    patterns = (PLACEHOLDERS.get(choice, re.escape(choice)) for choice in known)
    return any(re.fullmatch(pattern, value, re.ASCII | re.DOTALL) for pattern in patterns)


def options_of(choices: Mapping[str, Iterable[str]]) -> str:
    """Options with the values that they take, for a message."""
    return "; ".join(f"{name}={'|'.join(values)}" for name, values in choices.items()) or "none"


def no_option(of: str, assignment: str, choices: Mapping[str, Iterable[str]]) -> str:
    """What to say of an option that is not there."""
    return f"{of} has no option {assignment!r}; known: {options_of(choices)}"


def read_options(of: str, given: str, choices: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The options that a text such as `mask=real,sum=units` gives to a measure or a map."""
    options: dict[str, str] = {}
    for assignment in filter(None, given.split(",")):
        key, _, value = assignment.partition("=")
        if not takes(choices.get(key, ()), value):
            raise MeasureError(no_option(of, assignment, choices))
        if key in options:
            raise MeasureError(f"{of} is given the option {key!r} twice; give it once")
        options[key] = value
    return options


def refuse_twice(what: str, names: Iterable[str]) -> None:
    """Refuse a list in which a name stands twice: one of the two would be lost."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise MeasureError(f"the {what} {name!r} is given twice; give it once")
        seen.add(name)
