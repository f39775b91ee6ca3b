"""Minimal pairs of restaurant reviews: two texts of equal length in a row, which differ in one word, and in their label.

The word is an adjective (good, bad), a verb (saved, ruined the day), or what makes a negation (not, very tasty). Sentences are
those of bistro, with its splits: neither text of a pair is in another split of bistro.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random

from conoscope.common.errors import CorpusError
from conoscope.corpora import bistro_words as words
from conoscope.corpora.base import GRAMMAR, Corpus, Example, Notes, require_split
from conoscope.corpora.bistro import MOST_EXAMPLES, filler, split_of

SIZES = {"train": 2000, "validation": 400, "test": 400}
VERDICTS = (
    ("annoyed us", "delighted us"),
    ("annoyed us", "charmed us"),
    ("ruined the day", "saved the day"),
    ("upset everyone", "pleased everyone"),
    ("bored my friends", "impressed my friends"),
)
"""Predicates of blame and of praise that differ in one word."""
LABELS = ("negative", "positive")


def bistro_pairs(split: str, seed: int = 0, size: int | None = None) -> Corpus:
    """Minimal pairs: each text at an odd place is the first of a pair, the next one the second."""
    require_split("bistro-pairs", split, SIZES)
    size = SIZES[split] if size is None else size
    if not 2 <= size <= MOST_EXAMPLES or size % 2:
        bounds = f"an even number from 2 to {MOST_EXAMPLES}"
        raise CorpusError(f"cannot make {size} examples of bistro-pairs: expected {bounds}; for example size=400")

    def read(_: Notes) -> Iterator[Example]:
        found = _examples(split, Random(f"bistro-pairs:{split}:{seed}"))
        return (replace(each, id=f"bistro-pairs:{split}:{number}") for number, each in enumerate(islice(found, size), 1))

    return Corpus("bistro-pairs", split, LABELS, read, size, seed, marked_by=GRAMMAR)


def _examples(split: str, random: Random) -> Iterator[Example]:
    """The texts of pairs of one split, no text twice; the one word is marked."""
    seen: set[str] = set()
    while True:
        clauses = _clauses(random)
        if any(split_of(clause) != split for clause in clauses):
            continue
        before, after, end = filler(random, words.OPENINGS), filler(random, words.CLOSINGS), random.choice((".", ".", "!"))
        texts = [f"{before} {clause}{end} {after}".strip() for clause in clauses]
        if seen.isdisjoint(texts):
            seen |= set(texts)
            pair = [Example(text, label, None, _marks(texts)) for text, label in zip(texts, LABELS, strict=True)]
            yield from pair if random.random() < 0.5 else pair[::-1]


def _clauses(random: Random) -> tuple[str, str]:
    """A clause of blame and one of praise, which differ in one word."""
    aspect = random.choice(words.ASPECTS)
    subject, kind = random.choice(aspect.subjects), random.random()
    if kind < 0.2:
        blame, praise = random.choice(VERDICTS)
        return f"the {subject} {blame}", f"the {subject} {praise}"
    if kind < 0.4:
        start, other = f"the {subject} was", random.choice(words.INTENSIFIERS)
        negated = random.random() < 0.5
        adjective = random.choice(aspect.praise if negated else aspect.blame)
        both = f"{start} not {adjective}", f"{start} {other} {adjective}"
        return both if negated else both[::-1]
    start = f"we found the {subject}" if kind < 0.6 else f"the {subject} {random.choice(words.VERBS)}"
    plain = random.random() < 0.7
    blame, praise = (
        random.choice(x) for x in ((aspect.blame, aspect.praise) if plain else (aspect.harsh_blame, aspect.high_praise))
    )
    adverb = random.choice(("", "", *(f"{word} " for word in words.INTENSIFIERS))) if plain else ""
    return f"{start} {adverb}{blame}", f"{start} {adverb}{praise}"


def _marks(texts: list[str]) -> tuple[bool, ...]:
    """Which word differs."""
    one, other = (text.split() for text in texts)
    return tuple(word != instead for word, instead in zip(one, other, strict=True))
