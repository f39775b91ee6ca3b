"""Restaurant reviews with the words that three annotators marked in each (Sen et al. 2020, Yelp-HAT)."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from conoscope.common.errors import CorpusError
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.cutting import side
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.rationales import fitted, marked_words, without_punctuation
from conoscope.corpora.tables import Row, require, rows

LABELS = ("negative", "positive")
PEOPLE = 3
VOTES = {"majority": 2, "all": 3, "any": 1}
"""How many of the three annotators must have marked a word."""
LEARNED = (3, 4, 5, 7)
PARTS = {
    "train": LEARNED,
    "validation": LEARNED,
    "test": (1, 6, 8),
    "test-50": (1,),
    "test-100": (6,),
    "test-200": (8,),
}
SHARES = {"train": 70, "validation": 30}

Review = tuple[str, str, list[int]]
"""A text, its label, and for each word the number of annotators who marked it."""


def _load(request: CorpusRequest) -> Corpus:
    folder = request.folder()
    files = [_part(folder, number) for number in PARTS[request.split]]
    needed = VOTES[request["map"]]

    def read(notes: Notes) -> Iterator[Example]:
        for path in files:
            for number, (text, label, votes) in enumerate(_reviews(path, notes), 1):
                if request.split not in SHARES or side(text, request.seed, SHARES) == request.split:
                    flags = without_punctuation(text.split(), (vote >= needed for vote in votes))
                    yield Example(text, label, None, flags, f"{path.stem}:{number}")

    seed = request.seed if request.split in SHARES else None
    return Corpus("yelp_hat", request.split, LABELS, read, None, seed, request.fingerprint(*files), request.given)


def _part(folder: Path, number: int) -> Path:
    """The file of a part: raw annotations, or processed counts of votes."""
    for inside in ("raw_data", "processed_data", "."):
        if found := sorted((folder / inside).glob(f"ham_part{number}[.(]*csv")):
            return found[0]
    raise CorpusError(f"{folder} has neither raw_data/ham_part{number}*.csv nor processed_data/ham_part{number}*.csv; add one")


def _reviews(path: Path, notes: Notes) -> Iterator[Review]:
    """The reviews of a part, from either of the two formats."""
    table = rows(path, notes)
    first = next(table, None)
    if first is None:
        raise CorpusError(f"{path} is empty: no row after the header; put the file there again")
    counted = "human_attention" in first[1]
    require(path, first[1], *(("label", "text") if counted else ("Input.label", "Input.text", "Answer.html_output")))
    return (_counted if counted else _marked)(path, chain([first], table), notes)


def _counted(path: Path, table: Iterator[Row], notes: Notes) -> Iterator[Review]:
    """The reviews in processed rows, where votes are counted already."""
    for line, row in table:
        votes, words = row["human_attention"].split(), row["text"].split()
        if not all(re.fullmatch(r"[0-9]{1,3}", vote) for vote in votes):
            raise CorpusError(f"{path}:{line}: human_attention is not a count for each word; correct the row")
        if words:
            counts = fitted([int(vote) for vote in votes], len(words), 0, notes)
            yield row["text"], _label(row["label"], f"{path}:{line}"), counts
        else:
            notes["rows without text, left out"] += 1


def _marked(path: Path, table: Iterator[Row], notes: Notes) -> Iterator[Review]:
    """The reviews in raw rows, one row per annotator: a review needs three, and further ones are ignored."""
    reviews: dict[tuple[str, str], list[str]] = {}
    for line, row in table:
        label = _label(row["Input.label"], f"{path}:{line}")
        if row["Input.text"].strip():
            reviews.setdefault((row["Input.text"], label), []).append(row["Answer.html_output"])
        else:
            notes["rows without text, left out"] += 1
    for (text, label), pages in _one_spelling(reviews, notes).items():
        maps = [marked_words(page) for page in pages[:PEOPLE]]
        if len(maps) < PEOPLE:
            notes["reviews with fewer than three maps, left out"] += 1
        elif any(len(flags) != len(text.split()) for flags in maps):
            notes["reviews whose maps differ in length, left out"] += 1
        else:
            yield text, label, [sum(flags) for flags in zip(*maps, strict=True)]


def _one_spelling(reviews: Mapping[tuple[str, str], list[str]], notes: Notes) -> dict[tuple[str, str], list[str]]:
    """The reviews, merged if they have too few rows of their own and differ only in letters of a wrong encoding."""
    joined: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for text, label in reviews:
        plain, whole = re.sub(r"[^\x21-\x7e]+", "", text), "".join(text.split())
        damaged = len(reviews[text, label]) < PEOPLE and 2 * len(plain) > len(whole)
        joined.setdefault((plain, str(len(text.split())), label) if damaged else (text, label), []).append((text, label))
    notes["reviews in two spellings, taken as one"] += sum(len(alike) > 1 for alike in joined.values())
    return {min(alike, key=_damage): [page for one in alike for page in reviews[one]] for alike in joined.values()}


def _label(given: str, where: str) -> str:
    if given.strip() not in ("0", "1"):
        raise CorpusError(f"{where}: the label {given!r} is neither 0 (negative) nor 1 (positive); correct the row")
    return LABELS[int(given)]


def _damage(review: tuple[str, str]) -> tuple[int, int]:
    """Sort key for encoding damage: a letter read in a wrong encoding becomes two or three strange ones, or none."""
    return review[0].count("\ufffd"), sum(not c.isascii() for c in review[0])


ENTRY = Entry(
    "restaurant reviews, negative or positive, with the words that people marked",
    _load,
    origin="Sen et al. 2020, Human attention maps for text classification; no licence given",
    splits=tuple(PARTS),
    choices={"map": tuple(VOTES)},
)
