"""What several commands share: where corpora lie, and the numbers that options take, within bounds."""

import argparse
from typing import Any


def data_options(command: argparse.ArgumentParser) -> None:
    """Where corpora lie, and the columns of a file."""
    command.add_argument("--data-dir", metavar="DIR", help="the folder of downloaded corpora; default $CONOSCOPE_DATA or a cache")
    columns = command.add_argument_group("columns, for a .csv, .tsv, .jsonl or .parquet file or a data set of the Hub")
    columns.add_argument("--text", default="text", metavar="NAME", help="the texts")
    columns.add_argument("--pair", metavar="NAME", help="the second texts of pairs")
    columns.add_argument("--label", metavar="NAME", help="the labels (a column called label is found by itself)")
    columns.add_argument("--rationale", metavar="NAME", help='a flag for each whitespace word: "0 1 1"')


def pool_option(command: argparse.ArgumentParser) -> None:
    """Which vector stands for a text."""
    command.add_argument(
        "--pool", metavar="NAME",
        help="the vector that stands for a text: first (token), last or mean, as in --pool mean for a sentence encoder; default "
        "what the classifier reads, or what the model's 1_Pooling says",
    )  # fmt: skip


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or not 1 <= int(text[:19]) <= 10**18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def count(text: str) -> int:
    """A whole number from 0."""
    return 0 if text == "0" else positive(text)


def seed(text: str) -> int:
    """A number that chance begins with."""
    if not text.isdecimal() or int(text[:19]) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {2**32 - 1}")
    return int(text)


def rate(text: str) -> float:
    """A number above 0."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return rate


def weight(text: str) -> float:
    """A number from 0."""
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return weight


class Named(argparse.Action):
    """Gathers pairs of a name and something else."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        """One pair more."""
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), values[0]: values[1]})


def kind(text: str) -> tuple[str, tuple[str, ...]]:
    """A kind of token: a name, and its words."""
    name, _, words = text.partition("=")
    if not name.isidentifier() or not words.split():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=WORDS, such as negation='not no never'")
    return name, tuple(words.split())


def layers(text: str) -> tuple[int, int]:
    """From one layer to another, or one layer."""
    first, _, last = text.partition("..")
    return positive(first), positive(last or first)


def seeds(text: str) -> tuple[int, ...]:
    """Several seeds, from one to another or one by one."""
    first, dots, last = text.partition("..")
    if dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last) < int(first) + 10_000:
        return tuple(seed(str(number)) for number in range(int(first), int(last) + 1))
    return tuple(seed(part) for part in text.split(","))


def shard(text: str) -> tuple[int, int]:
    """Which part of how many."""
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N, such as 1/4")
    return int(index), int(count)
