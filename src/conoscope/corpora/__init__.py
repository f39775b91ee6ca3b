"""Corpora: `load_corpus("name:split")`, or a file. One short module per corpus."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from conoscope.corpora.base import Corpus, Example, stable_hash
from conoscope.corpora.bistro import bistro, bistro_stars, bistro_topics
from conoscope.corpora.files import Columns, is_file, read_file
from conoscope.errors import CorpusError, one_of

__all__ = ["CORPORA", "Columns", "Corpus", "Entry", "Example", "load_corpus", "splits_of", "stable_hash"]


@dataclass(frozen=True)
class Entry:
    """A named corpus: what it is, and what loads one of its splits with a seed."""

    what: str
    load: Callable[[str, int], Corpus]


def _topics(split: str, seed: int) -> Corpus:
    return bistro_topics(split, 20, seed)


CORPORA: dict[str, Entry] = {
    "bistro": Entry("restaurant reviews, negative or positive; half of them have a twin of the same words", bistro),
    "bistro-stars": Entry("restaurant reviews with 1 to 5 stars", bistro_stars),
    "bistro-topics": Entry("which dish was eaten; bistro-topics-50 for 50 of up to 200 dishes", _topics),
}


def load_corpus(spec: str, columns: Columns | None = None, seed: int = 0) -> Corpus:
    """A corpus by name and split ("bistro:test"; test where no split is given), or a file of texts.

    >>> load_corpus("bistro:train")
    >>> load_corpus("reviews.csv", Columns(text="review", label="stars"))
    """
    if is_file(spec):
        return read_file(Path(spec), columns or Columns())
    name, _, split = spec.partition(":")
    stem, _, number = name.rpartition("-")
    if stem == "bistro-topics" and number.isdecimal():
        return bistro_topics(split or "test", int(number), seed)
    if name not in CORPORA:
        raise CorpusError(
            f"no corpus {name!r}, and no such file; known corpora: {one_of(CORPORA)}; "
            "or give a .csv, .tsv, .jsonl or .parquet file"
        )
    return CORPORA[name].load(split or "test", seed)


def splits_of(spec: str, columns: Columns | None = None, seed: int = 0) -> dict[str, Corpus]:
    """What to train on, to stop by and to test on: the corpus's own splits; of a file, nine tenths and one tenth by hash."""
    if not is_file(spec):
        name, _, split = spec.partition(":")
        if split:
            raise CorpusError(f"training takes all splits of a corpus, not {spec!r}; give {name!r}")
        return {split: load_corpus(f"{name}:{split}", columns, seed) for split in ("train", "validation", "test")}
    whole = load_corpus(spec, columns, seed)

    def part(split: str, held_out: bool) -> Corpus:
        def read() -> Iterator[Example]:
            return (e for e in whole if (stable_hash(f"{seed} {e.text} {e.pair}") % 10 == 0) is held_out)

        return replace(whole, split=split, read=read, size=None, seed=seed)

    return {"train": part("train", held_out=False), "validation": part("validation", held_out=True)}
