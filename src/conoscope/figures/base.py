"""Figure: a name, the tables it draws, and a function from those tables to a chart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from conoscope.figures.theme import themed

if TYPE_CHECKING:
    import pandas as pd

Tables = Mapping[str, "pd.DataFrame"]
"""Tables by name, as `Result.tables`; of several results each has a column `run` that names the result."""
Chart = Any
"""A chart of Altair; a layered, joined or faceted one too."""
Draw = Callable[[Tables], "Chart | None"]

QUESTIONS = {
    "cones": "Do the vectors gather into a cone?",
    "classes": "Does the direction tell the class?",
    "heads": "What do the heads do?",
    "mixing": "What is mixed in?",
    "stream": "What does each layer add?",
    "words": "Which words count?",
    "training": "What does training change?",
    "studies": "Does it come out as published?",
}
"""What a figure helps to answer."""
DIGITS = 5
NORMAL = 1.96
"""Standard errors on each side of a 95 % interval."""


@dataclass(frozen=True)
class Figure:
    """A figure by name: `draw` takes tables and gives a chart, or None where they hold nothing to draw."""

    name: str
    needs: tuple[str, ...]
    question: str
    draw: Draw
    narrow: Draw | None = None
    """Draws it for narrow pages, where no change of its layout can make it fit (see chart.js)."""

    @property
    def title(self) -> str:
        """The first line of its docstring, without the full stop."""
        return (self.draw.__doc__ or "").strip().splitlines()[0].rstrip(".")

    @property
    def caption(self) -> str:
        """The rest of its docstring: how to read it."""
        return " ".join((self.draw.__doc__ or "").split("\n\n", 1)[-1].split())

    def fits(self, tables: Tables) -> bool:
        """Whether the tables that it draws are there."""
        return all(name_of(tables, need) is not None for need in self.needs)


FIGURES: dict[str, Figure] = {}


def figure(*needs: str, question: str, narrow: Draw | None = None) -> Callable[[Draw], Draw]:
    """Enter a drawing under its own name, with dashes; what it draws gets the one theme.

    The first line of its docstring is the figure's title, the rest its caption, which says how to read it. `narrow` draws it for
    narrow pages, where a page cannot make it fit by itself.
    """

    def enter(draw: Draw) -> Draw:
        name = draw.__name__.replace("_", "-")
        drawn = _themed(draw, name)
        FIGURES[name] = Figure(name, needs, question, drawn, narrow=_themed(narrow, name) if narrow else None)
        return drawn

    return enter


def _themed(draw: Draw, name: str) -> Draw:
    """The same drawing with the theme, and with the figure's name in its chart: a page of it knows its title and caption."""

    @wraps(draw)
    def drawn(tables: Tables) -> Chart | None:
        chart = draw(tables)
        if chart is None:
            return None
        told = chart.usermeta if isinstance(chart.usermeta, dict) else {}
        return themed(chart).properties(usermeta={**told, "figure": name})

    return drawn


def figure_in(spec: Mapping[str, Any]) -> Figure | None:
    """The figure that a chart, given as Vega-Lite, is of; None where it is of none."""
    return FIGURES.get(spec.get("usermeta", {}).get("figure", ""))


def name_of(tables: Tables, name: str) -> str | None:
    """The name under which a table is there: its own, or that with options; None where it is not."""
    return name if name in tables else next((found for found in tables if found.startswith(f"{name}:")), None)


def table_of(tables: Tables, name: str, *columns: str) -> "pd.DataFrame":
    """A table with its column `run`, of those columns alone where some are named, without rows that have no value.

    Numbers are rounded: a page holds no more digits than an eye sees.
    """
    found = name_of(tables, name)
    assert found is not None, f"no table {name}"
    frame = tables[found] if "run" in tables[found] else tables[found].assign(run="")
    there = frame.dropna(subset="value") if "value" in frame else frame
    chosen = there[["run", *columns]] if columns else there
    floats = chosen.select_dtypes("float").columns
    return chosen.assign(**{column: [_rounded(number) for number in chosen[column]] for column in floats})


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def runs_of(frame: "pd.DataFrame") -> list[str]:
    """The runs of a table, in its order."""
    return list(frame["run"].unique())
