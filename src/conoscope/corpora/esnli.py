"""Pairs of sentences: does the first entail the second (Camburu et al. 2018, e-SNLI), with highlights if the file has them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conoscope.common.errors import CorpusError
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.rationales import without_punctuation
from conoscope.corpora.tables import require, rows

LABELS = ("neutral", "entailment", "contradiction")
FILES = {
    "train": (("esnli_train_1.csv", "esnli_train_2.csv"), ("esnli_train_subset.csv",)),
    "validation": (("esnli_dev.csv",),),
    "test": (("esnli_test.csv",),),
}
SENTENCES = ("Sentence1", "Sentence2")
TOKENS = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
MISSING = ("", "n/a", "nan")


def _load(request: CorpusRequest) -> Corpus:
    files = _files(request.folder(), request.split)

    def read(notes: Notes) -> Iterator[Example]:
        for path in files:
            for line, row in rows(path, notes):
                require(path, row, "gold_label", *SENTENCES)
                yield from _example(row, path, line, notes)

    return Corpus("esnli", request.split, LABELS, read, None, None, request.fingerprint(*files), request.given)


def _files(folder: Path, split: str) -> list[Path]:
    for names in FILES[split]:
        if all((folder / name).is_file() for name in names):
            return [folder / name for name in names]
    expected = ", or ".join(" and ".join(names) for names in FILES[split])
    raise CorpusError(f"{folder} has no {expected}; conoscope fetch esnli")


def _example(row: Mapping[str, Any], path: Path, line: int, notes: Notes) -> Iterator[Example]:
    """The pair with punctuation split off; nothing if a sentence or the label is missing."""
    label = row["gold_label"].strip()
    tokens = [TOKENS.findall(row[column]) for column in SENTENCES]
    if not all(tokens) or any(row[column].strip().lower() in MISSING for column in SENTENCES) or label in ("-", ""):
        notes["pairs without a sentence or a label, left out"] += 1
    elif label not in LABELS:
        raise CorpusError(f"{path}:{line}: the label {label!r} is none of {', '.join(LABELS)}; correct the row")
    else:
        rationale = None
        if all(f"{column}_marked_1" in row for column in SENTENCES):
            flags = [_highlights(row[column], row[f"{column}_marked_1"]) for column in SENTENCES]
            rationale = None if None in flags else tuple(flag for of_text in flags for flag in of_text or ())
            notes["pairs whose highlights are of another text, read without them"] += rationale is None
        yield Example(" ".join(tokens[0]), label, " ".join(tokens[1]), rationale, f"{path.stem}:{line}")


def _highlights(sentence: str, marked: str) -> tuple[bool, ...] | None:
    """A flag for each token of the sentence, from the same sentence with *asterisks* around its highlights."""
    plain = marked.replace("*", "")
    if plain.split() != sentence.split() or marked.count("*") % 2:
        return None
    inside = [mark for number, piece in enumerate(marked.split("*")) for mark in [number % 2 == 1] * len(piece)]
    found = list(TOKENS.finditer(plain))
    return without_punctuation((token[0] for token in found), (any(inside[token.start() : token.end()]) for token in found))


ENTRY = Entry(
    "pairs of sentences: neutral, entailment or contradiction",
    _load,
    origin="Camburu et al. 2018, e-SNLI; MIT, the sentences of SNLI CC BY-SA 4.0",
)
