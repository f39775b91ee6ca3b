"""Example and Corpus: the types that all corpus modules use."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from conoscope.common.bounds import COUNT, SHARDS, within
from conoscope.common.errors import CorpusError, one_of

Notes = Counter[str]
"""Counts of what a reader repaired or left out."""
Length = Callable[[str, str | None], int]
"""A function that returns the number of tokens of a text or a pair, special tokens included."""


PEOPLE, GRAMMAR = "people", "grammar"
"""Who marked the words of rationales: people, or the grammar that generated the corpus."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text (or a pair of texts), its label, and a rationale: the decisive words, marked by people or by a grammar.

    `rationale` has one flag per whitespace word of `text`, then of `pair`.
    """

    text: str
    label: str | None = None
    pair: str | None = None
    rationale: tuple[bool, ...] | None = None
    id: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The whitespace words of the text, then of the pair."""
        return (*self.text.split(), *(self.pair or "").split())

    @property
    def digest(self) -> int:
        """A 63-bit hash of the whole example, the same on every machine."""
        return stable_hash(repr((self.id, self.text, self.pair, self.label, self.rationale)))


@dataclass(frozen=True)
class Corpus:
    """A named, lazy, ordered stream of examples that can be iterated repeatedly.

    `labels` fixes the order of the classes and is empty if nothing is labelled. `read` counts in its notes what it repairs or
    leaves out. `seed` is that of random generation or splitting. `fingerprint` distinguishes corpora of the same name. `options`
    are the given ones, as in `map=any`. `pack` is set if the examples depend on the tokenizer. `marked_by` says who marked the
    words of rationales.
    """

    name: str
    split: str
    labels: tuple[str, ...]
    read: Callable[[Notes], Iterator[Example]]
    size: int | None = None
    seed: int | None = None
    fingerprint: str = ""
    options: str = ""
    pack: "Callable[[Length, int], Corpus] | None" = None
    marked_by: str = PEOPLE

    def __iter__(self) -> Iterator[Example]:
        return self.read(Notes())

    def __len__(self) -> int:
        if self.size is None:
            raise TypeError(f"the length of {self} is not known before it is read")
        return self.size

    def __str__(self) -> str:
        return ":".join(filter(None, (self.name, self.split, self.options)))

    @classmethod
    def of(cls, examples: Iterable[Example], name: str = "examples") -> "Corpus":
        """A corpus from any iterable of examples; examples without an id get a number."""
        given = tuple(examples)
        if wrong := [e for e in given if not isinstance(e, Example)]:
            raise CorpusError(f"a corpus is made of Example, not of {type(wrong[0]).__name__}; give such as Example('fine soup')")
        numbered = tuple(e if e.id else replace(e, id=f"{name}:{number}") for number, e in enumerate(given, 1))
        labels = dict.fromkeys(example.label for example in numbered if example.label is not None)
        return cls(name, "", tuple(labels), lambda _: iter(numbered), len(numbered), fingerprint=digest_of(numbered))

    def first(self, limit: int | None) -> "Corpus":
        """The corpus of the first `limit` examples; all for None."""
        if limit is None:
            return self
        limit = within("limit", limit, COUNT)
        size = None if self.size is None else min(limit, self.size)
        cut = replace(self, read=lambda notes: islice(self.read(notes), limit), size=size)
        return cut._packing(lambda packed: packed.first(limit))

    def shard(self, index: int, count: int) -> "Corpus":
        """Shard `index` of `count` (both from 1): every count-th example."""
        if not (SHARDS.holds(index) and SHARDS.holds(count) and index <= count):
            raise CorpusError(f"no shard {index}/{count}: the first number goes from 1 to {count}; for example --shard 1/{count}")
        size = None if self.size is None else (self.size - index) // count + 1
        cut = replace(self, read=lambda notes: islice(self.read(notes), index - 1, None, count), size=size)
        return cut._packing(lambda packed: packed.shard(index, count))

    def unlabelled(self) -> "Corpus":
        """The same corpus without labels."""

        def read(notes: Notes) -> Iterator[Example]:
            return (replace(example, label=None) for example in self.read(notes))

        return replace(self, labels=(), read=read)._packing(Corpus.unlabelled)

    def packed(self, length: Length, longest: int) -> "Corpus":
        """The corpus packed into examples of at most `longest` tokens, if it is one that is packed; else itself."""
        return self if self.pack is None else self.pack(length, longest)

    def _packing(self, change: "Callable[[Corpus], Corpus]") -> "Corpus":
        """The same corpus; the change is also applied to the packed corpus later."""
        pack = self.pack
        return self if pack is None else replace(self, pack=lambda length, longest: change(pack(length, longest)))


def stable_hash(text: str) -> int:
    """A 63-bit hash of a text, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 1


def digest_of(examples: Iterable[Example]) -> str:
    """A hash of some examples that does not depend on their order."""
    return f"{sum(example.digest for example in examples) % 2**63:x}"


def require_split(name: str, split: str, splits: Iterable[str]) -> None:
    """CorpusError if a corpus does not have this split."""
    if split not in splits:
        raise CorpusError(f"no split {split!r} in {name}: expected one of {one_of(splits)}; for example {name}:test")
