"""Types of option values: numbers within bounds, ranges, named lists. An invalid value gives a one-line error."""

import argparse
from typing import Any

from conoscope.common.bounds import ANGLE, COUNT, PORT, POSITIVE, RATE, SEED, SHARDS, WEIGHT, Bounds
from conoscope.common.textfiles import readable


def _number(bounds: Bounds, text: str) -> Any:
    try:
        return bounds.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> int:
    """Return an integer of at least 1."""
    return int(_number(POSITIVE, text))


def count(text: str) -> int:
    """Return an integer of at least 0."""
    return int(_number(COUNT, text))


def seed(text: str) -> int:
    """Return a seed for random numbers."""
    return int(_number(SEED, text))


def rate(text: str) -> float:
    """Return a number above 0."""
    return float(_number(RATE, text))


def weight(text: str) -> float:
    """Return a number of at least 0."""
    return float(_number(WEIGHT, text))


def angle(text: str) -> float:
    """Return an angle in degrees above 0."""
    return float(_number(ANGLE, text))


class Named(argparse.Action):
    """Action for a repeated option: collects its (name, value) pairs in a dict."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        """Add one pair; refuse a name that was already given."""
        if values[0] in getattr(namespace, self.dest):
            raise argparse.ArgumentError(self, f"{values[0]!r} is given twice; give it once, with all that belongs to it")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), values[0]: values[1]})


def kind(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the name and the words of a kind of token, from NAME=WORDS."""
    name, _, words = readable(text).partition("=")
    if not name.isidentifier() or not words.split():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=WORDS, such as negation='not no never'")
    return name, tuple(words.split())


def label_names(text: str) -> tuple[str, ...]:
    """Return the names of labels, from a comma-separated list."""
    names = tuple(name.strip() for name in readable(text).split(","))
    if not all(names) or len({"=" in name for name in names}) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not such as bad,good or 0=bad,1=good")
    return names


def layers(text: str) -> tuple[int, int]:
    """Return the first and the last layer, from A..B or A."""
    first, _, last = text.partition("..")
    found = positive(first), positive(last or first)
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not A..B with A from 1 to B, such as 4..10")
    return found


def seeds(text: str) -> tuple[int, ...]:
    """Return several distinct seeds, from A..B or a comma-separated list."""
    first, dots, last = text.partition("..")
    if dots:
        begin, end = seed(first), seed(last)
        if not begin <= end < begin + 10_000:
            raise argparse.ArgumentTypeError(f"{text!r} is not A..B with A up to B, and 10000 seeds at the most")
        return tuple(range(begin, end + 1))
    found = tuple(seed(part) for part in text.split(","))
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a seed twice; give each once")
    return found


def shard(text: str) -> tuple[int, int]:
    """Return the shard and the number of shards, from I/N."""
    index, _, count = text.partition("/")
    try:
        found = int(SHARDS.read(index)), int(SHARDS.read(count))
    except ValueError:
        found = 1, 0
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N, such as 1/4")
    return found


def port(text: str) -> int:
    """Return the number of a port, or 0 for any."""
    return int(_number(PORT, text))
