"""survey(): what `conoscope corpus` prints of a corpus and its splits, of a file, or of a data set of the Hub."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from conoscope.corpora import CORPORA, Columns, Corpus, Example, every_split
from conoscope.describe import Description, describe
from conoscope.terminal import printable

SAMPLES = 3


@dataclass(frozen=True)
class Survey:
    """How much to read and to show: samples (None for a few, and none where they are offensive), coverage by vectors."""

    samples: int | None = None
    vectors: str | None = None
    limit: int | None = None
    width: int = 100


def survey(
    spec: str,
    columns: Columns | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    options: Survey | None = None,
) -> str:
    """Counts, balance, lengths, rationales, what was mended or left out, and samples; of the coverage by word vectors too."""
    chosen = options or Survey()
    whole, failed = every_split(spec, columns, seed, data_dir)
    found = {split: corpus.first(chosen.limit) for split, corpus in whole.items()}
    entry = CORPORA.get(next(iter(found.values())).name)
    offensive = entry is not None and entry.offensive
    shown = chosen.samples if chosen.samples is not None else 0 if offensive else SAMPLES
    described = [describe(c, 0 if number else shown, progress=True) for number, c in enumerate(found.values())]
    lines = [f"{spec}: {entry.what}\n{entry.origin}"] if entry else [spec]
    lines += [f"{split}: {error}" for split, error in failed.items()]
    if offensive and not shown:
        lines.append(f"the texts are offensive and not shown; --samples {SAMPLES} shows some")
    lines += [_text(described, chosen.width)]
    lines += [_coverage(corpus, chosen.vectors) for corpus in found.values() if chosen.vectors is not None]
    return "\n\n".join(lines)


def _coverage(corpus: Corpus, vectors: str) -> str:
    from conoscope.tokenizer import count_words
    from conoscope.vectors import load_vectors

    counts = count_words(text for example in corpus for text in (example.text, example.pair or ""))
    found = load_vectors(vectors, counts)
    return (
        f"{corpus}: {found.coverage():.2%} of {len(counts)} words and {found.coverage(counts):.2%} of their {counts.total()} "
        f"occurrences have a vector in {vectors}"
    )


def _text(described: Sequence[Description], width: int = 100) -> str:
    """A table of counts with a row for each split, one of labels, what was mended or left out, and the samples."""
    blocks = [_counts(described), _balance(described), _notes(described)]
    samples = [_sample(example, width) for one in described for example in one.samples]
    heading = f"samples of {described[0].corpus}"
    return "\n\n".join(filter(None, (*blocks, "\n".join((heading, *samples)) if samples else "")))


def _counts(described: Sequence[Description]) -> str:
    rows = [
        {
            "split": one.corpus.split or one.corpus.name,
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
    labels = described[0].corpus.labels
    columns = {
        one.corpus.split or one.corpus.name: [f"{one.labels[label]} ({one.labels[label] / one.examples:.1%})" for label in labels]
        for one in described
    }
    return pd.DataFrame({"label": [printable(label) for label in labels], **columns}).to_string(index=False) if labels else ""


def _notes(described: Sequence[Description]) -> str:
    """Each remark once, with its splits."""
    remarks: dict[str, list[str]] = {}
    for one in described:
        for what, count in one.notes.items():
            if count:
                remarks.setdefault(f"{what}: {count}", []).append(one.corpus.split or one.corpus.name)
    return "\n".join(f"{remark} ({', '.join(splits)})" for remark, splits in remarks.items())


def _sample(example: Example, width: int) -> str:
    """One line: label, id and as much of the text as fits, with the marked words in [brackets]."""
    flags = example.rationale or (False,) * len(example.words)
    words = [f"[{word}]" if flag else word for word, flag in zip(example.words, flags, strict=True)]
    if example.pair is not None:
        words.insert(len(example.text.split()), "|")
    line = printable(f"  {example.label or '-'}  {example.id}: {' '.join(words)}")
    return line if len(line) <= width else f"{line[: width - 1]}…"
