"""Rationales: converts what people marked to one flag per whitespace word."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from typing import TypeVar

from conoscope.corpora.base import Notes

UNEQUAL = "rationales of another length than their text, cut or filled"

T = TypeVar("T", bool, int)


def fitted(marks: Sequence[T], length: int, blank: T, notes: Notes) -> list[T]:
    """One mark per word: surplus marks are cut, missing ones are filled with `blank`."""
    if len(marks) != length:
        notes[UNEQUAL] += 1
    return list(marks[:length]) + [blank] * (length - len(marks))


def without_punctuation(words: Iterable[str], flags: Iterable[bool]) -> tuple[bool, ...]:
    """The flags, set to False on words that are only punctuation."""
    return tuple(flag and not _is_punctuation(word) for word, flag in zip(words, flags, strict=True))


def _is_punctuation(word: str) -> bool:
    return all(unicodedata.category(c)[0] == "P" for c in word)


def marked_words(html: str) -> list[bool]:
    """For each word of an annotator's page, a `span` each, whether the span or a part of it has the class `active`.

    Tags that browser extensions left inside a span, and nested spans, belong to the word around them.
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
    """Parser that splits a page into runs of text, each active or not; an outer span begins a new word."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[bool] = []
        self.runs: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a span, active or not."""
        if tag == "span":
            if not self.open:
                self.runs.append((" ", False))
            self.open.append("active" in (dict(attrs).get("class") or "").split())

    def handle_endtag(self, tag: str) -> None:
        """Close a span."""
        if tag == "span" and self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        """Add a run of text; it is active if any open span is."""
        self.runs.append((data, any(self.open)))
