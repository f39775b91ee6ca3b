"""survey(): what `conoscope corpus` prints of a corpus and its splits, of a file, or of a data set of the Hub."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from conoscope.bounds import COUNT, POSITIVE, check, named
from conoscope.corpora import CORPORA, Columns, Corpus, Example, every_split
from conoscope.describe import Description, describe
from conoscope.markup import cut
from conoscope.terminal import printable
from conoscope.vectors import load_vectors

SAMPLES = 3


@dataclass(frozen=True)
class Survey:
    """How much to read and to show: samples (None for a few, and none where they are offensive), coverage by vectors."""

    samples: int | None = None
    vectors: str | Path | None = None
    limit: int | None = None
    width: int = 100

    def __post_init__(self) -> None:
        check(self, names=("vectors",), samples=COUNT, limit=POSITIVE, width=POSITIVE)


def survey(
    spec: str | Path,
    columns: Columns | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    options: Survey | None = None,
) -> str:
    """Counts, balance, lengths, rationales, what was mended or left out, and samples; coverage by word vectors too."""
    chosen, spec = options or Survey(), named("corpus", spec)
    if chosen.vectors is not None:
        load_vectors(chosen.vectors, ())  # a source that is not there is told before anything is read
    whole, failed = every_split(spec, columns, seed, data_dir)
    found = [corpus.first(chosen.limit) for corpus in whole.values()]
    entry = CORPORA.get(found[0].name)
    offensive = entry is not None and entry.offensive
    shown = chosen.samples if chosen.samples is not None else 0 if offensive else SAMPLES
    described = [describe(corpus, 0 if number else shown, progress=True) for number, corpus in enumerate(found)]
    blocks = [printable(spec if entry is None else f"{spec}: {entry.what}") + (f"\n{entry.origin}" if entry else "")]
    blocks += [printable(f"{split}: {error}") for split, error in failed.items()]
    if offensive and not shown:
        blocks.append(f"the texts are offensive and not shown; --samples {SAMPLES} shows some")
    blocks.append(_text(described, chosen.width))
    return "\n\n".join([*blocks, *([] if chosen.vectors is None else _coverage(found, chosen.vectors))])


def _coverage(corpora: Sequence[Corpus], source: str | Path) -> list[str]:
    from conoscope.tokenizer import count_words

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
    """A table of counts with a row for each split, one of labels, what was mended or left out, and the samples."""
    blocks = [_counts(described), _balance(described), _notes(described)]
    samples = [_sample(example, width) for one in described for example in one.samples]
    heading = printable(f"samples of {described[0].corpus}")
    return "\n\n".join(filter(None, (*blocks, "\n".join((heading, *samples)) if samples else "")))


def _name(described: Description) -> str:
    return printable(described.corpus.split or described.corpus.name)


def _counts(described: Sequence[Description]) -> str:
    rows = [
        {
            "split": _name(one),
            "examples": one.examples,
            "pairs": one.pairs,
            "unlabelled": one.unlabelled,
            "words: median": one.length(0.5),
            "95 %": one.length(0.95),
            "most": max(one.lengths),
            "rationales": one.rationales,
            "marked words": "" if one.density is None else f"{one.density:.1%}",
        }
        for one in described
    ]
    frame = pd.DataFrame(rows)
    silent = [name for name in ("pairs", "unlabelled", "rationales", "marked words") if not any(map(bool, frame[name]))]
    return frame.drop(columns=silent).to_string(index=False)


def _balance(described: Sequence[Description]) -> str:
    labels = list(dict.fromkeys(label for one in described for label in one.corpus.labels))
    columns = {
        _name(one): [f"{one.labels[label]} ({one.labels[label] / one.examples:.1%})" for label in labels] for one in described
    }
    return (
        pd.DataFrame({"label": [cut(printable(label)) for label in labels], **columns}).to_string(index=False) if labels else ""
    )


def _notes(described: Sequence[Description]) -> str:
    """Each remark once, with its splits."""
    remarks: dict[str, list[str]] = {}
    for one in described:
        for what, count in one.notes.items():
            if count:
                remarks.setdefault(f"{what}: {count}", []).append(_name(one))
    return "\n".join(f"{remark} ({', '.join(splits)})" for remark, splits in remarks.items())


def _sample(example: Example, width: int) -> str:
    """One line: label, id and as much of the text as fits, with the marked words in [brackets]."""
    flags = example.rationale or (False,) * len(example.words)
    words = [f"[{word}]" if flag else word for word, flag in zip(example.words, flags, strict=True)]
    if example.pair is not None:
        words.insert(len(example.text.split()), "|")
    line = printable(f"  {example.label or '-'}  {example.id}: {' '.join(words)}")
    return line if len(line) <= width else f"{line[: width - 1]}…"
