"""Figure: a name, the tables it draws, and a function from those tables to a chart.

A caption says nothing of marks that are not drawn. It has three parts:

1. The docstring below its title: what the numbers are and how to read them. It names no mark.
2. `marks`, given to `@figure`: a sentence for each mark, under a name. A layer that draws it has that name among the styles of
   its mark, as in `mark_area(style="interval")`; Vega-Lite leaves styles that its configuration lacks alone. A sentence is in
   the caption of a chart if one of its layers has the name. Draw functions that draw a mark only at times (hollow points where
   a model is wrong) give the name only then.
3. `noted(chart, sentence)`: what is true of this chart alone, as which layers were left out. It is kept in `usermeta`.

`Figure.caption_of(spec(chart))` is the caption of one chart; `Figure.caption` is all that a caption may say, without notes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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
    marks: Mapping[str, str] = field(default_factory=dict)
    """A sentence for each mark, by the style of the layer that draws it."""
    narrow: Draw | None = None
    """Draws it for narrow pages, where no change of its layout can make it fit (see chart.js)."""

    @property
    def title(self) -> str:
        """The first line of its docstring, without the full stop."""
        return (self.draw.__doc__ or "").strip().splitlines()[0].rstrip(".")

    @property
    def reading(self) -> str:
        """The rest of its docstring: how to read it, whatever is drawn."""
        return " ".join((self.draw.__doc__ or "").split("\n\n", 1)[-1].split())

    @property
    def caption(self) -> str:
        """All that a caption of this figure may say of its marks."""
        return " ".join((self.reading, *self.marks.values()))

    def caption_of(self, spec: Mapping[str, Any]) -> str:
        """The caption of one chart, given as Vega-Lite: how to read it, the marks that it has, and its notes."""
        there = styles_of(spec)
        said = [sentence for mark, sentence in self.marks.items() if mark in there]
        return " ".join((self.reading, *said, *spec.get("usermeta", {}).get("notes", ())))

    def fits(self, tables: Tables) -> bool:
        """Whether the tables that it draws are there."""
        return all(name_of(tables, need) is not None for need in self.needs)


FIGURES: dict[str, Figure] = {}


def figure(
    *needs: str, question: str, marks: Mapping[str, str] | None = None, narrow: Draw | None = None
) -> Callable[[Draw], Draw]:
    """Enter a drawing under its own name, with dashes; what it draws gets the one theme.

    The first line of its docstring is the figure's title, the rest says how to read it; `marks` says what each mark is. `narrow`
    draws it for narrow pages, where a page cannot make it fit by itself.
    """

    def enter(draw: Draw) -> Draw:
        name = draw.__name__.replace("_", "-")
        drawn = _themed(draw, name, question)
        FIGURES[name] = Figure(name, needs, question, drawn, marks or {}, _themed(narrow, name, question) if narrow else None)
        return drawn

    return enter


def _themed(draw: Draw, name: str, question: str) -> Draw:
    """The same drawing with the theme, and with the figure's name in its chart: a page of it knows its title and caption. Figures
    of classes say which vector of a text they are of."""

    @wraps(draw)
    def drawn(tables: Tables) -> Chart | None:
        chart = draw(tables)
        if chart is None:
            return None
        told = chart.usermeta if isinstance(chart.usermeta, dict) else {}
        notes = [*told.get("notes", ()), *(_vectors(tables) if question == "classes" else ())]
        return themed(chart).properties(usermeta={**told, **({"notes": notes} if notes else {}), "figure": name})

    return drawn


def _vectors(tables: Tables) -> Iterator[str]:
    """Which vector of a text was analysed, where the runs say it."""
    if "runs" not in tables or "vector" not in tables["runs"]:
        return
    known = tables["runs"].dropna(subset="vector")
    if known["vector"].nunique() == 1:
        yield f"The vector of a text is {known['vector'].iloc[0]}."
    elif "vector_read" in known and known["vector_read"].nunique(dropna=False) == 1:
        yield f"The vector of a text is the same in all runs, {known['vector_read'].iloc[0]}."
    elif len(known):
        each = "; ".join(f"{run}: {vector}" for run, vector in zip(known["run"], known["vector"], strict=True))
        yield f"The vector of a text differs between runs ({each})."


def figure_in(spec: Mapping[str, Any]) -> Figure | None:
    """The figure that a chart, given as Vega-Lite, is of; None where it is of none."""
    return FIGURES.get(spec.get("usermeta", {}).get("figure", ""))


def noted(chart: Chart, *notes: str) -> Chart:
    """The chart with sentences that its caption ends with; empty ones are left out."""
    said = [note for note in notes if note]
    return chart.properties(usermeta={"notes": said}) if said else chart


def styles_of(spec: Mapping[str, Any]) -> set[str]:
    """The styles of all marks of a chart, given as Vega-Lite, however deep: what `marks` calls them."""
    inner = [child for how in ("concat", "hconcat", "vconcat", "layer") for child in spec.get(how, ())]
    found = {style for child in (*inner, *([spec["spec"]] if "spec" in spec else ())) for style in styles_of(child)}
    mark = spec.get("mark")
    style = mark.get("style", ()) if isinstance(mark, dict) else ()
    return found | ({style} if isinstance(style, str) else set(style))


def name_of(tables: Tables, name: str) -> str | None:
    """The name under which a table is there: its own, or that with options; None where it is not."""
    return name if name in tables else next((found for found in tables if found.startswith(f"{name}:")), None)


def table_of(tables: Tables, name: str, *columns: str, exact: bool = False) -> "pd.DataFrame":
    """A table with its column `run`, of those columns alone where some are named, without rows that have no value.

    Numbers are rounded, a page holds no more digits than an eye sees; `exact` ones are not, for what is still to be computed.
    """
    found = name_of(tables, name)
    assert found is not None, f"no table {name}"
    frame = tables[found] if "run" in tables[found] else tables[found].assign(run="")
    there = frame.dropna(subset="value") if "value" in frame else frame
    chosen = there[["run", *columns]] if columns else there
    return chosen if exact else rounded(chosen)


def rounded(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The same table with numbers of as many digits as an eye sees."""
    floats = frame.select_dtypes("float").columns
    return frame.assign(**{column: [_rounded(number) for number in frame[column]] for column in floats})


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def runs_of(frame: "pd.DataFrame") -> list[str]:
    """The runs of a table, in its order."""
    return list(frame["run"].unique())
