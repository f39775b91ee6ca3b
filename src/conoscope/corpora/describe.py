"""describe() and survey(): counts of a corpus in one pass, and the output of `conoscope corpus`."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.common.bounds import COUNT, POSITIVE, check, named
from conoscope.common.errors import CorpusError
from conoscope.common.markup import cut
from conoscope.common.terminal import Progress, printable
from conoscope.corpora import CORPORA, Columns, Corpus, Example, Notes, every_split
from conoscope.corpora.word_splitting import count_words
from conoscope.corpora.word_vectors import load_vectors

SAMPLES, CLASSES = 3, 20
"""How many samples are shown by default: at least, and at most where there are many classes."""
MANY, SHOWN = 200, 10
"""How many labels are all shown at most, and how many of more."""


@dataclass
class Description:
    """Counts of a corpus: examples by label, texts by length in words, marked words, what was repaired or left out."""

    corpus: Corpus
    labels: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    unlabelled: int = 0
    pairs: int = 0
    rationales: int = 0
    marked: int = 0
    markable: int = 0
    notes: Notes = field(default_factory=Notes)
    samples: list[Example] = field(default_factory=list)

    @property
    def examples(self) -> int:
        """The number of examples."""
        return self.lengths.total()

    @property
    def density(self) -> float | None:
        """The share of marked words in the examples that have a rationale; None if there are none."""
        return self.marked / self.markable if self.markable else None

    def length(self, share: float) -> int:
        """The quantile of the text length in words: this share of the examples is not longer."""
        seen = 0
        for length in sorted(self.lengths):
            seen += self.lengths[length]
            if seen >= share * self.examples:
                break
        return length

    def add(self, example: Example) -> None:
        """Count one more example."""
        words = len(example.words)
        self.lengths[words] += 1
        self.pairs += example.pair is not None
        if example.label is None:
            self.unlabelled += 1
        else:
            self.labels[example.label] += 1
        if example.rationale is not None:
            self.rationales += 1
            self.marked += sum(example.rationale)
            self.markable += words


def describe(corpus: Corpus, samples: int | None = None, progress: bool = False) -> Description:
    """Describe a corpus in one pass; its samples are the examples of smallest hash: uniform, and always the same.

    Classes take turns, so that `samples` (by default one of each class, at least SAMPLES, at most CLASSES) show each.
    """
    described = Description(corpus)
    if samples is None:
        samples = SAMPLES if _are_texts(len(corpus.labels), corpus.size) else max(SAMPLES, min(len(corpus.labels), CLASSES))
    sampled: dict[str | None, list[tuple[int, int, Example]]] = {label: [] for label in (*corpus.labels, None)}
    with Progress(corpus.size, progress, "read") as bar:
        for number, example in enumerate(corpus.read(described.notes)):
            described.add(example)
            if samples:
                of_class = sampled.setdefault(example.label, [])
                put = heapq.heappush if len(of_class) < samples else heapq.heappushpop
                put(of_class, (-example.digest, number, example))
            bar.advance(1)
    if not described.examples:
        raise CorpusError(f"{corpus} has no examples; give another corpus")
    turns = zip_longest(
        *([example for *_, example in sorted(sampled[label], reverse=True)] for label in sorted(sampled, key=str))
    )
    described.samples = [example for turn in turns for example in turn if example is not None][:samples]
    return described


@dataclass(frozen=True)
class Survey:
    """Options of `survey`: the number of samples (None for a few, but none if they are offensive), word vectors for coverage,
    the number of examples to read, and the width of a line."""

    samples: int | None = None
    vectors: str | Path | None = None
    limit: int | None = None
    width: int = 100

    def __post_init__(self) -> None:
        check(self, names=("vectors",), samples=COUNT, limit=POSITIVE, width=POSITIVE)


@dataclass(frozen=True)
class Surveyed:
    """What `survey` found: a heading, remarks, a description of each split, and the coverage by word vectors."""

    heading: str
    remarks: Sequence[str]
    splits: Sequence[Description]
    coverage: Sequence[str]
    width: int

    def record(self) -> dict[str, Any]:
        """The same as a mapping, for JSON."""
        splits = [{"split": _name(one), **_record(one), "labels": _shares(one), "notes": dict(one.notes)} for one in self.splits]
        samples = [{"id": e.id, "label": e.label, "text": e.text, "pair": e.pair} for one in self.splits for e in one.samples]
        return {"corpus": self.heading, "splits": splits, "samples": samples, "remarks": [*self.remarks, *self.coverage]}

    def __str__(self) -> str:
        return "\n\n".join((self.heading, *self.remarks, _text(self.splits, self.width), *self.coverage))


def survey(
    spec: str | Path,
    columns: Columns | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    options: Survey | None = None,
) -> Surveyed:
    """Counts, label balance, lengths, rationales, repairs, samples, and the coverage by word vectors; as a text with str()."""
    chosen, spec = options or Survey(), named("corpus", spec)
    if chosen.vectors is not None:
        load_vectors(chosen.vectors, ())  # fails on a missing source before anything is read
    whole, failed = every_split(spec, columns, seed, data_dir)
    found = [corpus.first(chosen.limit) for corpus in whole.values()]
    entry = CORPORA.get(found[0].name)
    offensive = entry is not None and entry.offensive
    shown = 0 if chosen.samples is None and offensive else chosen.samples
    described = [describe(corpus, 0 if number else shown, progress=True) for number, corpus in enumerate(found)]
    heading = printable(spec if entry is None else f"{spec}: {entry.what}") + (f"\n{entry.origin}" if entry else "")
    remarks = [printable(f"{split}: {error}") for split, error in failed.items()]
    if offensive and shown == 0:
        remarks.append(f"the texts are offensive and not shown; --samples {SAMPLES} shows some")
    return Surveyed(heading, remarks, described, () if chosen.vectors is None else _coverage(found, chosen.vectors), chosen.width)


def _coverage(corpora: Sequence[Corpus], source: str | Path) -> list[str]:
    counts = [count_words(text for e in corpus for text in (e.text, e.pair or "")) for corpus in corpora]
    vectors = load_vectors(source, dict.fromkeys(word for words in counts for word in words))
    known = {word for word, found in zip(vectors.words, vectors.found, strict=True) if found}
    return [
        f"{printable(str(corpus))}: {sum(word in known for word in words) / len(words):.2%} of {len(words)} words and "
        f"{sum(count for word, count in words.items() if word in known) / words.total():.2%} of their {words.total()} "
        f"occurrences have a vector in {printable(str(source))}"
        for corpus, words in zip(corpora, counts, strict=True)
    ]


def _text(described: Sequence[Description], width: int = 100) -> str:
    """A table of counts with a row per split, a table of labels, what was repaired or left out, and the samples."""
    blocks = [_counts(described), _balance(described), _notes(described)]
    samples = [_sample(example, width) for one in described for example in one.samples]
    heading = printable(f"samples of {described[0].corpus}")
    return "\n\n".join(filter(None, (*blocks, "\n".join((heading, *samples)) if samples else "")))


def _name(described: Description) -> str:
    return printable(described.corpus.split or described.corpus.name)


def _counts(described: Sequence[Description]) -> str:
    frame = pd.DataFrame([{"split": _name(one), **_row(one)} for one in described])
    frame["marked words"] = ["" if one.density is None else f"{one.density:.1%}" for one in described]
    silent = [name for name in ("pairs", "unlabelled", "rationales", "marked words") if not any(map(bool, frame[name]))]
    return frame.drop(columns=silent).to_string(index=False)


def _row(one: Description) -> dict[str, Any]:
    return {
        "examples": one.examples,
        "pairs": one.pairs,
        "unlabelled": one.unlabelled,
        "words: median": one.length(0.5),
        "95 %": one.length(0.95),
        "most": max(one.lengths),
        "rationales": one.rationales,
        "marked words": one.density,
    }


def _balance(described: Sequence[Description]) -> str:
    labels = list(dict.fromkeys(label for one in described for label in one.corpus.labels))
    columns = {
        _name(one): [f"{one.labels[label]} ({one.labels[label] / one.examples:.1%})" for label in labels] for one in described
    }
    shown = pd.DataFrame({"label": [cut(printable(label)) for label in labels], **columns})
    alike = _are_texts(len(labels), sum(one.labels.total() for one in described))
    if len(labels) <= MANY and not alike:
        return shown.to_string(index=False) if labels else ""
    looks = "; they look like texts or numbers of rows: name the column of classes with --label" if alike else ""
    return f"{shown[:SHOWN].to_string(index=False)}\n… {len(labels)} labels in all{looks}"


def _are_texts(labels: int, examples: int | None) -> bool:
    """Whether there are so many labels, for so many examples, that they are no classes."""
    return examples is not None and labels > CLASSES and 2 * labels > examples


def _record(one: Description) -> dict[str, Any]:
    named = {"words: median": "median_words", "95 %": "words_of_95_percent", "most": "most_words", "marked words": "marked_share"}
    return {named.get(name, name): value for name, value in _row(one).items()}


def _shares(one: Description) -> dict[str, dict[str, float]]:
    return {label: {"examples": one.labels[label], "share": one.labels[label] / one.examples} for label in one.corpus.labels}


def _notes(described: Sequence[Description]) -> str:
    """The notes, each once, with its splits."""
    remarks: dict[str, list[str]] = {}
    for one in described:
        for what, count in one.notes.items():
            if count:
                remarks.setdefault(f"{what}: {count}", []).append(_name(one))
    return "\n".join(f"{remark} ({', '.join(splits)})" for remark, splits in remarks.items())


def _sample(example: Example, width: int) -> str:
    """One line of at most `width`: label, id and text, with marked words in [brackets]."""
    flags = example.rationale or (False,) * len(example.words)
    words = [f"[{word}]" if flag else word for word, flag in zip(example.words, flags, strict=True)]
    if example.pair is not None:
        words.insert(len(example.text.split()), "|")
    line = printable(f"  {example.label or '-'}  {example.id}: {' '.join(words)}")
    return line if len(line) <= width else f"{line[: width - 1]}…"
