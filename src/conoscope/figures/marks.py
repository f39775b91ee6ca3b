"""Marks: names that fit into a chart, and colours and shapes that tell them apart."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from unicodedata import category, east_asian_width

from conoscope.figures.base import Tables, runs_of
from conoscope.figures.theme import GREY, PALETTE, SHAPES
from conoscope.terminal import printable

if TYPE_CHECKING:
    import pandas as pd

DASHES = [4, 3]
LETTER = 7
"""How wide a column is, about, in pixels."""
AXIS, HEADER, LEGEND, RUN = 24, 40, 40, 60
"""Columns of a name beside an axis, above a panel and in a legend, and of the name of a run, which stands below a chart."""
ROOM = 640
"""How wide a legend below a chart may be, in pixels."""
SITES = {
    "hidden": "hidden states",
    "input": "layer input",
    "context": "heads",
    "output": "attention output",
    "query": "queries",
    "key": "keys",
    "value": "values",
}
"""Sites as they are named in figures, in that order."""
TOKENS = {
    "cls": "[CLS]",
    "sep": "[SEP]",
    "special": "other special tokens",
    "punctuation": "punctuation",
    "other": "other tokens",
}
"""Kinds of tokens as they are named in figures; [CLS] and [SEP] are what begins and ends a text, whatever a model calls them."""


def columns_of(text: str) -> int:
    """How many columns a text takes: two for each wide character."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    return 2 if east_asian_width(character) in "WF" else 1


def cut(text: object, columns: int) -> str:
    """A user's text on one line of so many columns at most; no letter is parted from its accents.

    Whatever reaches a chart is cut here, and the theme has no limits: Vega's own cut between the halves of an emoji, and what is
    left cannot be drawn.
    """
    # Cut before as well as after: a text may have any number of characters, and each may be spelled out by several.
    plain = printable(str(text).strip()[: columns + 1]).strip() or "(empty)"
    ends = list(accumulate(map(_columns, plain)))
    if ends[-1] <= columns:
        return plain
    kept = sum(end < columns for end in ends)
    while kept and category(plain[kept]).startswith("M"):
        kept -= 1
    return plain[:kept] + "…"


def shown(names: Iterable[object], columns: int = LEGEND, called: Mapping[Any, str] | None = None) -> dict[Any, str]:
    """Each name as it is shown: as it is `called`, on one line, cut where it is long, and never the same for two names."""
    found: dict[Any, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        short = cut((called or {}).get(name, name), columns)
        found[name] = short if short not in taken else _numbered(short, taken, columns)
        taken.add(found[name])
    return found


def _numbered(name: str, taken: set[str], columns: int) -> str:
    endings = (f" ({number})" for number in range(2, len(taken) + 3))
    return next(text for ending in endings if (text := cut(name, columns - len(ending)) + ending) not in taken)


def runs_shown(tables: Tables, frame: "pd.DataFrame", columns: int = RUN) -> dict[str, str]:
    """Each run as it is shown, in the order of the table `runs` where there is one: so a run has one colour in all figures."""
    return shown([*(tables["runs"]["run"] if "runs" in tables else ()), *runs_of(frame)], columns)


def renamed(frame: "pd.DataFrame", names: Mapping[Any, str], *columns: str) -> "pd.DataFrame":
    """The frame with those names in its columns."""
    return frame.assign(**{column: frame[column].map(names) for column in columns})


def ticks(values: Sequence[float]) -> dict[str, Any]:
    """An axis with exactly these ticks: told no count, Vega-Lite leaves out some where it finds them too many."""
    return {"values": list(values), "tickCount": len(values)}


def evenly(count: int, pixels: float, needed: float) -> list[int]:
    """Of the numbers from 1 those that are written where each has so many pixels and a label needs so many, evenly spaced."""
    return list(range(1, count + 1, max(1, -(-int(needed) // max(1, int(pixels))))))


def counted(layers: Sequence[int]) -> str:
    """Layers by their numbers: layer 0, or layers 0, 1."""
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def left_out(layers: Sequence[int]) -> str:
    """What a caption says of layers that are not drawn; nothing where there are none."""
    if not layers:
        return ""
    return f"{counted(layers).capitalize()} {'are' if len(layers) > 1 else 'is'} left out, for want of room."


def colours_of(names: Sequence[object]) -> list[str]:
    """A colour for each name; they come round after the last."""
    return [PALETTE[place % len(PALETTE)] for place in range(len(names))]


def shapes_of(names: Sequence[object]) -> list[str]:
    """A shape for each name, another one when colours come round: 42 names have marks of their own."""
    closed = [shape for shape in SHAPES if shape != "stroke"]
    return [closed[(place % len(PALETTE) + place // len(PALETTE)) % len(closed)] for place in range(len(names))]


def told_apart(column: str, names: Sequence[str], among: Sequence[str] = (), **legend: Any) -> list[Any]:
    """Colour and shape by a column, with one legend for both; none where there is one name.

    The names have the marks that they have `among` all, where those that are drawn are some of them.
    """
    import altair as alt

    every = among or names
    marks = {name: mark for name, *mark in zip(every, colours_of(every), shapes_of(every), strict=True)}
    colours, shapes = zip(*(marks[name] for name in names), strict=True)
    said = alt.Legend(title=None, symbolOpacity=1, **legend) if len(names) > 1 else None
    colour = alt.Color(f"{column}:N", legend=said).scale(domain=list(names), range=list(colours))
    return [colour, alt.Shape(f"{column}:N", legend=said).scale(domain=list(names), range=list(shapes))]


def dashed(chart: Any, name: str, **legend: Any) -> Any:
    """A chart of rules or lines that stand for one thing, dashed, with an entry of its own in the legend."""
    import altair as alt

    said = alt.Legend(title=None, symbolType="stroke", symbolStrokeColor=GREY, symbolSize=300, **{"orient": "bottom", **legend})
    dashes = alt.StrokeDash("stands_for:N", legend=said).scale(domain=[name], range=[DASHES])
    return chart.transform_calculate(stands_for=json.dumps(name)).encode(dashes)


def below(names: Sequence[str], columns: int | None = None) -> dict[str, Any]:
    """A legend below the chart, row by row, with so many names beside each other, or as many as there is room for.

    Not column by column: Vega then mixes up the names where a column is not full.
    """
    beside = max(1, ROOM // (LETTER * max(map(columns_of, names), default=1) + 30))
    return {"orient": "bottom", "direction": "horizontal", "columns": columns or beside}
