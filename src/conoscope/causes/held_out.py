"""The texts that give directions, and those that are counted: never the same text."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from conoscope.corpora import Columns, Corpus, Example, Texts, corpus_of, train_beside
from conoscope.corpora.base import Notes
from conoscope.corpora.cutting import side

HALVES = {"directions": 50, "counted": 50}


@dataclass(frozen=True)
class HeldOut:
    """Texts that give directions, texts that are counted, and where the first come from. `left`: how many texts gave directions
    and are not counted."""

    directions: Corpus
    counted: Corpus
    which: str
    left: Counter[str] = field(default_factory=Counter)


def held_out(corpus: Texts, directions: Texts | None, columns: Columns, most: int) -> HeldOut:
    """What is turned towards, from other texts than are counted: `directions`, the train split beside a corpus that is named, or
    the half of the texts, by hash. `most`: how many texts give directions at most, the first."""
    texts = corpus_of(corpus, columns)
    if directions is not None:
        given = corpus_of(directions, None if isinstance(directions, Corpus) else columns)
        return _apart(given.first(most), texts, str(given))
    beside = train_beside(corpus, columns) if isinstance(corpus, str | Path) else None
    if beside is not None:
        return _apart(beside.first(most), texts, str(beside))
    halves = {name: _half(texts, name) for name in HALVES}
    return HeldOut(halves["directions"].first(most), halves["counted"], f"the half of {texts}, by hash")


def _half(corpus: Corpus, name: str) -> Corpus:
    def read(notes: Notes) -> Iterator[Example]:
        return (e for e in corpus.read(notes) if side(f"{e.text} {e.pair}", 0, HALVES) == name)

    return replace(corpus, read=read, size=None, pack=None)


def _apart(directions: Corpus, counted: Corpus, which: str) -> HeldOut:
    taken = {(e.text, e.pair) for e in directions}
    left: Counter[str] = Counter()

    def read(notes: Notes) -> Iterator[Example]:
        left.clear()
        for example in counted.read(notes):
            if (example.text, example.pair) in taken:
                left["texts"] += 1
            else:
                yield example

    return HeldOut(directions, replace(counted, read=read, size=None, pack=None), which, left)
