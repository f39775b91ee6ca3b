"""HTML elements that escape their content."""

from collections.abc import Iterable
from html import escape

from conoscope.common.terminal import printable

LONGEST = 80
"""Default length of a quoted text, in characters."""


class Html(str):
    """A string that is HTML already and is not escaped again."""

    __slots__ = ()


def tag(name: str, *inside: str, **attributes: str) -> Html:
    """An HTML element; strings in it are escaped, `Html` is not. `class_` is the attribute class, `aria_sort` is aria-sort."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{written}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Elements and texts concatenated; texts are escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def quoted(text: object, longest: int = LONGEST) -> Html:
    """User text as HTML: one line, cut, invisible characters escaped, its text direction isolated (`bdi`)."""
    shown = printable(cut(str(text), longest))
    if not shown:
        return tag("span", "(empty)", class_="muted")
    return Html(escape(shown)) if shown.isascii() else tag("bdi", shown)


def sentence(text: str) -> Html:
    """A sentence of our own as HTML: a number stays on one line with its %, and text between backticks is code."""
    parts = escape(text).replace(" %", "\u00a0%").split("`")
    return joined(tag("code", Html(part)) if place % 2 else Html(part) for place, part in enumerate(parts))


def cut(text: str, longest: int = LONGEST) -> str:
    """The text, shortened to `longest` characters with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
