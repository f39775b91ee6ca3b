"""Marks: names that fit into a chart, and colours and shapes that tell them apart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conoscope.figures.theme import PALETTE, SHAPES
from conoscope.terminal import printable

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 40
"""Characters of a name that are shown."""


def shown(names: Iterable[object], longest: int = LONGEST) -> dict[Any, str]:
    """Each name as it is shown: on one line, cut where it is long, and never the same for two names."""
    found: dict[Any, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        # Cut before as well as after: a name may have any number of characters, and each may be spelled out by several.
        text = printable(str(name)[: longest + 1]).strip() or "(empty)"
        short = text if len(text) <= longest else text[: longest - 1] + "…"
        found[name] = short if short not in taken else _numbered(short, taken)
        taken.add(found[name])
    return found


def renamed(frame: "pd.DataFrame", names: Mapping[Any, str], *columns: str) -> "pd.DataFrame":
    """The frame with those names in its columns."""
    return frame.assign(**{column: frame[column].map(names) for column in columns})


def _numbered(name: str, taken: set[str]) -> str:
    return next(text for number in range(2, len(taken) + 3) if (text := f"{name} ({number})") not in taken)


def colours_of(names: Sequence[object]) -> list[str]:
    """A colour for each name; they come round after the last."""
    return [PALETTE[place % len(PALETTE)] for place in range(len(names))]


def shapes_of(names: Sequence[object]) -> list[str]:
    """A shape for each name, another one when colours come round: 42 names have marks of their own."""
    closed = [shape for shape in SHAPES if shape != "stroke"]
    return [closed[(place % len(PALETTE) + place // len(PALETTE)) % len(closed)] for place in range(len(names))]


def told_apart(column: str, names: Sequence[str], **legend: Any) -> list[Any]:
    """Colour and shape by a column, in that order of names, with one legend for both; none where there is one name."""
    import altair as alt

    said = alt.Legend(title=None, symbolOpacity=1, **legend) if len(names) > 1 else None
    colour = alt.Color(f"{column}:N", legend=said).scale(domain=names, range=colours_of(names))
    return [colour, alt.Shape(f"{column}:N", legend=said).scale(domain=names, range=shapes_of(names))]
