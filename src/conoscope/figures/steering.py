"""Steering: how often the answer follows the vector that is classified from, by how far it is turned."""

from typing import Any

from conoscope.figures.base import Chart, Tables, figure, noted, runs_of, table_of
from conoscope.figures.marks import below, left_out, renamed, runs_shown, shown, told_apart

WAYS = {
    "class": "towards the class",
    "random": "random direction",
    "shuffled": "shuffled labels",
    "length": "lengthened by as much",
}
"""What a vector is turned towards, in words."""
PANEL, HIGH = 180, 150
ABOVE = 24
"""Columns of the name above a panel."""
MOST = 12
"""How many panels are drawn."""


@figure(
    "steering",
    question="causes",
    marks={
        "line": "Lines apart mean that the direction decides; lines together that any move of this size does as much.",
        "interval": "Bands are exact 95 % intervals over texts.",
    },
)
def steering(tables: Tables) -> Chart | None:
    """How often the answer follows the direction of another class.

    The vector that is classified from is turned, in one layer, part of the way to the mean direction of another class, its
    length unchanged: at 1 it points there. Controls move it as far: towards a random direction within the texts' covariance,
    along the difference of classes with shuffled labels, or along itself. Where the outcome is known before, nothing is drawn.
    """
    import altair as alt

    every = table_of(tables, "steering")
    every = every[every["from"].isna() & every["to"].isna() & (every["by"] == "share") & every["direction"].isin(list(WAYS))]
    frame = every[every["judged"].astype(bool)]
    if frame.empty:
        return None
    runs = runs_shown(tables, frame)
    several = len(runs_of(frame)) > 1
    panel = "layer " + frame["layer"].astype(int).astype(str)
    frame = frame.assign(panel=panel + ", " + frame["run"].map(runs) if several else panel, line=frame["direction"].map(WAYS))
    frame = renamed(frame, shown(frame["panel"], ABOVE), "panel")
    panels = list(frame["panel"].unique())
    names = [name for name in WAYS.values() if name in set(frame["line"])]
    colour, shape = told_apart("line", names, list(WAYS.values()), **below(names))
    drawn = frame[["panel", "line", "share", "angle", "flipped", "low", "high", "probability", "n"]]
    drawn = drawn[drawn["panel"].isin(panels[-MOST:])]
    numbers = ("share", "angle", "flipped", "low", "high", "probability")
    tips: list[Any] = ["panel", "line", *(alt.Tooltip(f"{name}:Q", format=".3~f") for name in numbers), "n"]
    x = alt.X("share:Q", title="share of the way to the class").axis(tickCount=4)
    scale, title = alt.Scale(domain=[0, 1]), "share of answers that follow"
    base = alt.Chart(drawn).encode(x, colour)
    band = base.mark_area(opacity=0.15, aria=False, style="interval").encode(
        alt.Y("low:Q", title=title, scale=scale), alt.Y2("high:Q")
    )
    line = base.mark_line(aria=False, style="line").encode(alt.Y("flipped:Q", title=title, scale=scale))
    points = base.mark_point(filled=True, size=35, opacity=1, aria=False).encode(
        alt.Y("flipped:Q", title=title, scale=scale), shape, tooltip=tips
    )
    chart = alt.layer(band, line, points).properties(width=PANEL, height=HIGH)
    facet = alt.Facet("panel:N", title=None, sort=panels[-MOST:])
    known = sorted(set(every["layer"].astype(int)) - set(frame["layer"].astype(int)))
    notes = [left_out(known).replace("for want of room", "as the outcome is known before")] if known else []
    notes += [f"The last {MOST} panels are drawn."] if len(panels) > MOST else []
    return noted(chart.facet(facet, columns=3), *notes)
