"""Options of corpora, measures and maps: their allowed values, and their syntax `key=value,key=value`."""

import re
from collections.abc import Iterable, Mapping

from conoscope.common.errors import MeasureError
from conoscope.common.keywords import nearest

PLACEHOLDERS = {
    "N": r"(?=\d{1,9}$)0*[1-9]\d*",
    "TEXT": r".*",
    "LAYER.HEAD+...": r"[1-9]\d*\.[1-9]\d*(\+[1-9]\d*\.[1-9]\d*)*",
}
"""Placeholders in an option's list of values, with the pattern of each: a whole number from 1, at most nine digits; any text;
heads."""


def takes(known: Iterable[str], value: str) -> bool:
    """Whether `value` is one of the values in `known`, or matches a placeholder there."""
    patterns = (PLACEHOLDERS.get(choice, re.escape(choice)) for choice in known)
    return any(re.fullmatch(pattern, value, re.ASCII | re.DOTALL) for pattern in patterns)


def options_of(choices: Mapping[str, Iterable[str]]) -> str:
    """Options with their allowed values, for a message."""
    return "; ".join(f"{name}={'|'.join(values)}" for name, values in choices.items()) or "none"


def no_option(of: str, assignment: str, choices: Mapping[str, Iterable[str]]) -> str:
    """The error message for an unknown option."""
    key, _, value = assignment.partition("=")
    words = [known for known in choices.get(key, ()) if known.replace("_", "").isalpha() and known not in PLACEHOLDERS]
    near = nearest(value, words) if key in choices else nearest(key, choices)
    return f"{of} has no option {assignment!r}{near}; known: {options_of(choices)}"


def read_options(of: str, given: str, choices: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Parse the options of a measure or a map from a text such as `mask=real,sum=units`."""
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
    """MeasureError if a name occurs twice in a list: one of the two would be lost."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise MeasureError(f"the {what} {name!r} is given twice; give it once")
        seen.add(name)
