"""Heat maps of layers and heads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, runs_of
from conoscope.figures.marks import LETTER, cut, evenly
from conoscope.figures.theme import SEQUENTIAL

if TYPE_CHECKING:
    import pandas as pd

ROOM = 720
"""How wide panels beside one another may be together, in pixels."""
MARGIN = 40
"""What a panel needs beside its cells."""
WRITTEN = 26
"""From this width on a number can be read in a cell."""
TALLEST = 480
MANY = 12
"""With more layers or heads than this no panel is widened for numbers."""
ROWS = 3
"""Where it would take more rows of panels than this none is widened either."""
DARK = 0.45
"""Below this share of its range the scheme of colours is so dark that white is read on it."""
BARE = {"ticks": False, "domain": False, "labelOverlap": False}
SMALL = 20
"""In cells that are narrower than this the labels are smaller."""


@dataclass(frozen=True)
class Grid:
    """How large the cells of panels of layers and heads are, and how many panels stand beside one another."""

    cell: int
    height: int
    columns: int

    @classmethod
    def of(cls, frame: "pd.DataFrame", panels: int, runs: int) -> "Grid":
        """As many panels side by side as leave room for numbers, where that takes few rows; else smaller cells."""
        heads, layers = int(frame["head"].max()), int(frame["layer"].max())
        roomy = ROOM // (WRITTEN * heads + MARGIN)
        beside = max(1, min(panels if runs == 1 else runs, roomy))
        if max(heads, layers) > MANY or panels * runs > ROWS * beside or roomy < runs:
            beside = min(panels * runs, 4 if runs in (2, 4) else 3)
            # Two beside each other, where more would leave no room for the numbers of the heads.
            fits = {count: (ROOM // count - MARGIN) // heads >= _needed(heads, 9) for count in (2, 3)}
            beside = 2 if beside == 3 and fits[2] and not fits[3] else beside
        cell = max(3, min(44, (ROOM // beside - MARGIN) // heads))
        return cls(cell, max(3, min(cell, WRITTEN, TALLEST // layers)), beside)


@dataclass(frozen=True)
class Numbers:
    """What a cell shows: `value` as colour, from where to where, and in the cell, where there is room, a column in a form.

    `more` columns are told on hovering.
    """

    title: str
    within: tuple[float, float]
    shown: str = "value"
    form: str = ".2f"
    more: tuple[str, ...] = ()


def heat(frame: "pd.DataFrame", panels: Mapping[str, str], numbers: Numbers) -> Chart | None:
    """A panel for each kind (`panel`, by its words) and run: layers down, heads across."""
    import altair as alt

    frame = frame[frame["panel"].isin(panels)]
    if frame.empty:
        return None
    runs = runs_of(frame)
    grid = Grid.of(frame, frame["panel"].nunique(), len(runs))
    parts = {(name, run): frame[(frame["panel"] == name) & (frame["run"] == run)] for name in panels for run in runs}
    there = [(key, part) for key, part in parts.items() if len(part)]
    charts = []
    for number, ((name, run), part) in enumerate(there):
        width, height = grid.cell * part["head"].nunique(), grid.height * part["layer"].nunique()
        words = [panels[name], *([cut(run, max(width, 140) // LETTER)] if len(runs) > 1 else [])]
        beside, below = number % grid.columns > 0, number + grid.columns < len(there)
        cells = _cells(part, grid, numbers).encode(
            across(alt.X("head:O", title=None if below else "head"), part["head"], grid.cell),
            down(alt.Y("layer:O", title=None if beside else "layer"), part["layer"], grid.height),
        )
        charts.append(cells.properties(width=width, height=height, title=words))
    return alt.concat(*charts, columns=grid.columns, spacing=14)


def across(heads: Any, numbers: "pd.Series[int]", cell: int) -> Any:
    """The axis of heads in cells of that width: bare, with smaller labels in small cells, and evenly fewer without room."""
    size = 11 if cell >= SMALL else 9
    count = int(numbers.max())
    return heads.axis(labelAngle=0, labelFontSize=size, values=evenly(count, cell, _needed(count, size)), **BARE)


def _needed(count: int, size: int) -> float:
    """Pixels that numbers up to that count need beside each other, with a gap between them."""
    return 0.64 * size * len(str(count)) + 3


def down(layers: Any, numbers: "pd.Series[int]", height: int) -> Any:
    """The axis of layers in cells of that height."""
    there = sorted(int(number) for number in numbers.unique())
    size = 11 if height >= 11 else 9
    return layers.axis(labelFontSize=size, values=[there[place - 1] for place in evenly(len(there), height, size)], **BARE)


def ramp(color: Any, **more: Any) -> Any:
    """The legend of colours from low to high, above what they colour."""
    return color.legend(orient="top", gradientLength=160, gradientThickness=10, **more)


def _cells(part: "pd.DataFrame", grid: Grid, numbers: Numbers) -> Chart:
    import altair as alt

    names = tuple(dict.fromkeys((numbers.shown, "value", *numbers.more)))
    base = alt.Chart(part[["layer", "head", *names]])
    color = alt.Color("value:Q", title=numbers.title).scale(scheme=SEQUENTIAL, domain=list(numbers.within))
    titles = {"value": numbers.title}
    told = [alt.Tooltip(f"{name}:Q", title=titles.get(name, name.replace("_", " ")), format=".3~f") for name in names]
    tiles = base.mark_rect(aria=False, style="head").encode(ramp(color, tickCount=3), tooltip=["layer:O", "head:O", *told])
    if grid.cell < WRITTEN or grid.height < 14:
        return tiles
    low, high = numbers.within
    ink = alt.condition(alt.datum.value < low + DARK * (high - low), alt.value("white"), alt.value("black"))
    text = alt.Text(f"{numbers.shown}:Q", format=numbers.form)
    return alt.layer(tiles, base.mark_text(fontSize=9, aria=False).encode(text, color=ink))
