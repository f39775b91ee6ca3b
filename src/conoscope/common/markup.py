"""Markup: elements that escape whatever is put into them."""

from collections.abc import Iterable
from html import escape

from conoscope.common.terminal import printable

LONGEST = 80
"""How much of a text is shown."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *inside: str, **attributes: str) -> Html:
    """An element: what is inside is escaped unless it is markup; `class_` is the attribute class, `aria_sort` is aria-sort."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{written}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Elements and texts, one after the other."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def quoted(text: object, longest: int = LONGEST) -> Html:
    """Text from elsewhere: one line, cut, what cannot be seen spelled out, and of a direction of its own."""
    shown = printable(cut(str(text), longest))
    if not shown:
        return tag("span", "(empty)", class_="muted")
    return Html(escape(shown)) if shown.isascii() else tag("bdi", shown)


def sentence(text: str) -> Html:
    """A sentence of ours: a number and its sign stay on one line, and what stands between backticks is code."""
    parts = escape(text).replace(" %", "\u00a0%").split("`")
    return joined(tag("code", Html(part)) if place % 2 else Html(part) for place, part in enumerate(parts))


def cut(text: str, longest: int = LONGEST) -> str:
    """The text, its end left out where it is long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
