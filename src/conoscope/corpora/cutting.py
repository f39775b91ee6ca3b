"""How a stream of examples is cut into splits, and dealt so that its first examples show every class."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from conoscope.corpora.base import Example, stable_hash

TENTH = {"validation": 10, "train": 90}
"""One tenth of what there is to learn from is kept to stop by."""

T = TypeVar("T")


def side(text: str, seed: int, shares: Mapping[str, int]) -> str:
    """The split that a text falls into, by a hash: shares in percent, and the same text always on the same side."""
    point = stable_hash(f"{seed} {text}") % 100
    for split, share in shares.items():
        if point < share:
            return split
        point -= share
    raise ValueError(f"the shares {dict(shares)} do not come to a hundred")


def by_turns(streams: Iterable[Iterator[T]]) -> Iterator[T]:
    """One from each stream in turn, until all have ended."""
    left = list(streams)
    while left:
        for stream in tuple(left):
            try:
                yield next(stream)
            except StopIteration:
                left.remove(stream)


def dealt(examples: Iterable[Example]) -> Iterator[Example]:
    """The examples of a small corpus that is stored class by class, one of each class in turn."""
    classes: dict[str | None, list[Example]] = {}
    for example in examples:
        classes.setdefault(example.label, []).append(example)
    return by_turns([iter(alike) for alike in classes.values()])
