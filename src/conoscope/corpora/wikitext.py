"""Paragraphs of Wikipedia (Merity et al. 2016, WikiText-2 raw), unlabelled; packed into pairs with the model's tokenizer."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from conoscope.common.errors import CorpusError
from conoscope.common.textfiles import lines
from conoscope.corpora.base import Corpus, Example, Length, Notes
from conoscope.corpora.entry import CorpusRequest, Entry

FILES = {"train": "wiki.train.raw", "validation": "wiki.valid.raw", "test": "wiki.test.raw"}
ARCHIVE, INSIDE = "wikitext-2-raw-v1.zip", "wikitext-2-raw"
MOST = 128
"""Maximum tokens of a packed pair, special tokens included."""
SENTENCE = re.compile(r"\S.*?(?:\s[.?!](?=\s)|$)", re.DOTALL)


def _load(request: CorpusRequest) -> Corpus:
    """A corpus of paragraphs; `packed` turns it into pairs once there is a tokenizer."""
    path, member = _place(request.folder("wikitext2"), FILES[request.split])

    def read(notes: Notes) -> Iterator[Example]:
        for number, text, _ in paragraphs(path, member, notes):
            yield Example(text, id=f"wikitext:{request.split}:{number}")

    def pack(length: Length, longest: int) -> Corpus:
        def read_pairs(notes: Notes) -> Iterator[Example]:
            found = pairs(paragraphs(path, member, notes), length, min(longest, MOST))
            return (Example(*pair, id=f"wikitext:{request.split}:{number}") for number, pair in enumerate(found, 1))

        return replace(corpus, pack=None, read=read_pairs)

    corpus = Corpus("wikitext", request.split, (), read, None, None, request.fingerprint(path), request.given, pack)
    return corpus


def _place(folder: Path, name: str) -> tuple[Path, str]:
    for path in (folder / name, folder / INSIDE / name):
        if path.is_file():
            return path, ""
    archive = folder / ARCHIVE
    if not archive.is_file():
        raise CorpusError(f"{folder} has neither {name} nor {ARCHIVE}; conoscope fetch wikitext")
    return archive, f"{INSIDE}/{name}"


def paragraphs(path: Path, member: str, notes: Notes) -> Iterator[tuple[int, str, int]]:
    """Line, text and article number of each paragraph; headings are left out, and a title begins an article."""
    article = 0
    for number, line in enumerate(lines(path, notes, member), 1):
        text = line.strip()
        if text.startswith("= "):
            article += not text.startswith("= =") and text.endswith(" =")
        elif text:
            yield number, text, article


def pairs(found: Iterable[tuple[int, str, int]], length: Length, most: int) -> Iterator[tuple[str, None, str | None]]:
    """The sentences of each article in pairs of at most `most` tokens: the first text fills half of them, the second the rest."""
    special = length("", "")
    half = special + (most - special) // 2
    for _, article in groupby(found, key=lambda paragraph: paragraph[2]):
        left = [piece for _, text, _ in article for piece in _sentences(text, lambda piece: length(piece, "") <= half)]
        while left:
            first, left = _filled(left[1:], lambda text: length(text, "") <= half, left[0])
            second, left = _filled(left, lambda text, first=first: length(first, text) <= most)  # type: ignore[misc]
            if not second:
                first, second = _halves(first)
            yield first, None, second or None


def _sentences(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    for sentence in SENTENCE.findall(text):
        yield from _pieces(sentence, fits)


def _pieces(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text, halved until every piece fits."""
    if len(text) < 2 or fits(text):
        return [text]
    return [piece for part in _halves(text) for piece in _pieces(part, fits)]


def _halves(text: str) -> tuple[str, str]:
    """The two halves of a text, split between words if there are several."""
    words = text.split()
    middle = (len(words) + 1) // 2
    if len(words) > 1:
        return " ".join(words[:middle]), " ".join(words[middle:])
    return text[: (len(text) + 1) // 2], text[(len(text) + 1) // 2 :]


def _filled(sentences: list[str], fits: Callable[[str], bool], text: str = "") -> tuple[str, list[str]]:
    """The text with as many sentences appended as fit, and the remaining sentences."""
    for number, sentence in enumerate(sentences):
        longer = f"{text} {sentence}".strip()
        if not fits(longer):
            return text, sentences[number:]
        text = longer
    return text, []


ENTRY = Entry(
    "paragraphs of Wikipedia, unlabelled; packed into pairs of at most 128 tokens for the model that reads them",
    _load,
    origin="Merity et al. 2016, WikiText-2 raw; CC BY-SA 3.0",
    splits=tuple(FILES),
)
