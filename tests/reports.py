"""What tests of the report share: runs with hostile texts, figures that clip, and a reader of pages."""

from collections import Counter
from html.parser import HTMLParser
from typing import Any

import altair as alt
import pandas as pd

from conoscope.figures.base import Figure, Tables
from conoscope.reporting.gathering import Run

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\u202eright to left\u202c",
    "🙂 שלום",
    "x" * 10_000,
    "",
    "=HYPERLINK(1)",
    "-2+3",
    "@SUM(A1)",
    "'\"&lt;\x00\x1b[31m",
]
VOID = ("meta", "link")


def run(name: str = "a model", **tables: pd.DataFrame) -> Run:
    """A run of some tables, of a model and a corpus that are not there."""
    provenance = {
        "model": {"name": name, "type": "bert", "class": "Bert", "hash": "abc", "labels": ["no", "yes"]},
        "corpus": {"name": "texts", "split": "test", "labels": ["no", "yes"]},
        "measures": list(tables),
        "options": {"max_length": 16},
        "shards": ["1/1"],
        "seen": {"examples": 1200, "truncated": 7},
    }
    return Run(name, "", provenance, tables)


def sim(layers: int = 3) -> pd.DataFrame:
    """A table as the measure `sim` writes it."""
    rows = [
        {"measure": "sim", "site": site, "layer": layer, "head": None, "value": (layer + 1) / 7, "sd": 0.1, "n": 50}
        for site in ("hidden", "key")
        for layer in range(layers)
    ]
    return pd.DataFrame(rows).astype({"layer": "Int64", "head": "Int64", "n": "Int64"})


def words() -> pd.DataFrame:
    """A table whose texts are hostile."""
    return pd.DataFrame({"measure": "self_sim", "word": HOSTILE, "value": [place / 10 for place in range(len(HOSTILE))]})


def clipped(number: int) -> Figure:
    """A figure with a clip and a gradient, of a size of its own."""

    def draw(tables: Tables) -> Any:
        """Cells of a table.

        A cell for each row.
        """
        base = alt.Chart(tables["sim"][["run", "layer", "value", "site"]])
        cells = base.mark_rect(clip=True).encode(
            alt.X("layer:O"), alt.Y("site:N"), alt.Color("value:Q"), tooltip=["run", "site", "value"]
        )
        line = base.mark_line(clip=True).encode(alt.X("layer:Q"), alt.Y("value:Q"))
        return (cells & line).configure_view(continuousWidth=100 * number)

    return Figure(f"clipped-{number}", ("sim",), "cones", draw)


class Page(HTMLParser):
    """What is in a page: its elements, its ids, the texts of its scripts, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.opened: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.opened.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.opened:
            self.texts[self.opened[-1]][-1] += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The attributes of every such element."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]

    @property
    def ids(self) -> Counter[str]:
        """How often each id is there."""
        return Counter(found["id"] for _, found in self.elements if found.get("id"))
