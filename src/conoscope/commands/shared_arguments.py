"""What several commands share: where corpora lie, and the numbers that options take, within bounds."""

import argparse
from typing import Any

from conoscope.common.bounds import COUNT, POSITIVE, RATE, SEED, SHARDS, WEIGHT, Bounds
from conoscope.common.textfiles import readable


def data_options(command: argparse.ArgumentParser) -> None:
    """Where corpora lie, and the columns of a file."""
    command.add_argument("--data-dir", metavar="DIR", help="the folder of downloaded corpora; default $CONOSCOPE_DATA or a cache")
    columns = command.add_argument_group("columns, for a .csv, .tsv, .jsonl or .parquet file or a data set of the Hub")
    columns.add_argument("--text", default="text", type=readable, metavar="NAME", help="the texts")
    columns.add_argument("--pair", type=readable, metavar="NAME", help="the second texts of pairs")
    columns.add_argument("--label", type=readable, metavar="NAME", help="the labels (a column called label is found by itself)")
    columns.add_argument("--rationale", type=readable, metavar="NAME", help='a flag for each whitespace word: "0 1 1"')


def _number(bounds: Bounds, text: str) -> Any:
    try:
        return bounds.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def pool_option(command: argparse.ArgumentParser) -> None:
    """Which vector stands for a text."""
    command.add_argument(
        "--pool", metavar="NAME",
        help="the vector that stands for a text: first (token), last or mean, as in --pool mean for a sentence encoder; default "
        "what the classifier reads, or what the model's 1_Pooling says",
    )  # fmt: skip


def positive(text: str) -> int:
    """A whole number from 1."""
    return int(_number(POSITIVE, text))


def count(text: str) -> int:
    """A whole number from 0."""
    return int(_number(COUNT, text))


def seed(text: str) -> int:
    """A number that chance begins with."""
    return int(_number(SEED, text))


def rate(text: str) -> float:
    """A number above 0."""
    return float(_number(RATE, text))


def weight(text: str) -> float:
    """A number from 0."""
    return float(_number(WEIGHT, text))


class Named(argparse.Action):
    """Gathers pairs of a name and something else."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        """One pair more; a name that was given already is refused."""
        if values[0] in getattr(namespace, self.dest):
            raise argparse.ArgumentError(self, f"{values[0]!r} is given twice; give it once, with all that belongs to it")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), values[0]: values[1]})


def kind(text: str) -> tuple[str, tuple[str, ...]]:
    """A kind of token: a name, and its words."""
    name, _, words = readable(text).partition("=")
    if not name.isidentifier() or not words.split():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=WORDS, such as negation='not no never'")
    return name, tuple(words.split())


def layers(text: str) -> tuple[int, int]:
    """From one layer to another, or one layer."""
    first, _, last = text.partition("..")
    found = positive(first), positive(last or first)
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not A..B with A from 1 to B, such as 4..10")
    return found


def seeds(text: str) -> tuple[int, ...]:
    """Several seeds, from one to another or one by one, each once."""
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
    """Which part of how many."""
    index, _, count = text.partition("/")
    try:
        found = int(SHARDS.read(index)), int(SHARDS.read(count))
    except ValueError:
        found = 1, 0
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N, such as 1/4")
    return found
