"""From what people marked to one flag per whitespace word."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from typing import TypeVar

from conoscope.corpora.base import Notes

UNEQUAL = "rationales of another length than their text, cut or filled"

T = TypeVar("T", bool, int)


def fitted(marks: Sequence[T], length: int, blank: T, notes: Notes) -> list[T]:
    """As many marks as there are words: what is too many is cut, what is missing is blank."""
    if len(marks) != length:
        notes[UNEQUAL] += 1
    return list(marks[:length]) + [blank] * (length - len(marks))


def without_punctuation(words: Iterable[str], flags: Iterable[bool]) -> tuple[bool, ...]:
    """The flags, none of them on a word that is only punctuation."""
    return tuple(flag and not _is_punctuation(word) for word, flag in zip(words, flags, strict=True))


def _is_punctuation(word: str) -> bool:
    return all(unicodedata.category(c)[0] == "P" for c in word)


def marked_words(html: str) -> list[bool]:
    """For each word of an annotator's page, a `span` each, whether it or a part of it was of class `active`.

    Tags that a browser's extensions left within a span, and spans in spans, belong to the word around them.
    """
    page = _Page()
    page.feed(html)
    page.close()
    flags: list[bool] = []
    inside = False
    for text, active in page.runs:
        for piece in re.findall(r"\s+|\S+", text):
            if not piece.isspace() and inside:
                flags[-1] |= active
            elif not piece.isspace():
                flags.append(active)
            inside = not piece.isspace()
    return flags


class _Page(HTMLParser):
    """The text of a page in runs, each with whether it is active; an outer span begins a new word."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[bool] = []
        self.runs: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note whether the span is active."""
        if tag == "span":
            if not self.open:
                self.runs.append((" ", False))
            self.open.append("active" in (dict(attrs).get("class") or "").split())

    def handle_endtag(self, tag: str) -> None:
        """The span ends."""
        if tag == "span" and self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        """A run of text, in all the spans that are open."""
        self.runs.append((data, any(self.open)))
