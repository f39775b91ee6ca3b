"""What tests of figures share: tables made by hand, names that no chart expects, and what is in a chart."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from conoscope.figures import FIGURES, spec, svg

HOSTILE = [
    "x" * 10_000,
    "x" * 9_999 + "y",
    "</script><b>",
    "\u202egnirts\u202c",
    "",
    "😀 a.b[0] 'q' \"d\"",
    "a\nb\x1b[31m",
    "null",
]


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a table, with the nullable numbers that results have."""
    table = pd.DataFrame(rows)
    whole = [name for name in ("layer", "head", "n") if name in table]
    return table.astype(dict.fromkeys(whole, "Int64"))


def drawn(name: str, **tables: pd.DataFrame) -> Any:
    """A figure by name, of tables by name; two underscores stand for a dot."""
    return FIGURES[name].draw({table.replace("__", "."): rows for table, rows in tables.items()})


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """The rows that a chart draws."""
    return [row for rows in spec(chart)["datasets"].values() for row in rows]


def rows_where(chart: Any, **wanted: Any) -> list[dict[str, Any]]:
    """Those rows that have these values."""
    return [row for row in rows_of(chart) if all(row[name] == value for name, value in wanted.items())]


def parts_of(chart: Any) -> Iterator[dict[str, Any]]:
    """Every single chart within a chart, with its marks and encodings."""
    return _parts(spec(chart))


def _parts(chart: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "layer" in chart:
        for part in chart["layer"]:
            yield from _parts(part)
    elif "spec" in chart:
        yield from _parts(chart["spec"])
    else:
        yield chart


def panels_of(chart: Any) -> list[str]:
    """The headers of a chart's panels."""
    found: list[str] = spec(chart)["facet"]["sort"]
    return found


def marks_of(chart: Any) -> list[str]:
    """The kinds of marks, from below."""
    return [part["mark"]["type"] for part in parts_of(chart)]


def is_drawable(chart: Any) -> bool:
    """Whether it can be drawn, at a width that a page has, and no name takes more than its room."""
    picture = svg(chart)
    width = float(picture.split('width="', 1)[1].split('"', 1)[0])
    return width <= 760 and all(len(str(value)) < 150 for row in rows_of(chart) for value in row.values())
