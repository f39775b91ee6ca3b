"""Splitting a stream of examples by hash, and interleaving classes so that the first examples contain every class."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from conoscope.corpora.base import Corpus, Example, Notes, stable_hash

TENTH = {"validation": 10, "train": 90}
"""One tenth of the training data is kept for validation (early stopping)."""

T = TypeVar("T")


def side(text: str, seed: int, shares: Mapping[str, int]) -> str:
    """The split of a text, by hash, so that equal texts share a split; `shares` are in percent."""
    point = stable_hash(f"{seed} {text}") % 100
    for split, share in shares.items():
        if point < share:
            return split
        point -= share
    raise ValueError(f"the shares {dict(shares)} do not come to a hundred")


def in_two(whole: Corpus, seed: int) -> dict[str, Corpus]:
    """A corpus split by hash: nine tenths for training and one for validation."""

    def part(split: str) -> Corpus:
        def read(notes: Notes) -> Iterator[Example]:
            return (e for e in whole.read(notes) if side(f"{e.text} {e.pair}", seed, TENTH) == split)

        return replace(whole, split=split, read=read, size=None, seed=seed)

    return {split: part(split) for split in ("train", "validation")}


def by_turns(streams: Iterable[Iterator[T]]) -> Iterator[T]:
    """Interleave streams: one item from each in turn, until all have ended."""
    left = list(streams)
    while left:
        for stream in tuple(left):
            try:
                yield next(stream)
            except StopIteration:
                left.remove(stream)


def dealt(examples: Iterable[Example]) -> Iterator[Example]:
    """Interleave the classes of a small corpus that is stored class by class: one example of each in turn."""
    classes: dict[str | None, list[Example]] = {}
    for example in examples:
        classes.setdefault(example.label, []).append(example)
    return by_turns([iter(alike) for alike in classes.values()])
