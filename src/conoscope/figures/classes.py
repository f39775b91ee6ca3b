"""Classes: the cosines of examples with the direction of each class, around what all classes share."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, name_of, noted, runs_of, table_of
from conoscope.figures.lines import grid, lines_of
from conoscope.figures.marks import AXIS, HEADER, LETTER, SITES, below, colours_of, columns_of, renamed, shown
from conoscope.figures.panels import paneled
from conoscope.figures.theme import PALETTE

if TYPE_CHECKING:
    import pandas as pd

DIRECTIONS = {"held_out": "mean of the other half", "first": "first right example"}
"""Representatives whose cosines are drawn: that which no scored example helped to make, and the published one."""
PUBLISHED = "Beside them are directions as published: the first example of a class that the model gets right."
OPPOSITE = "Of two classes the directions are opposite around their mean, so that one is drawn."
FEW, MOST = 6, 40
"""Classes that get a box for each two of them, and classes that are drawn."""
BOXES, ALONE, RANGED = 300, 170, 240
"""Pixels of a panel of boxes, of one with a single direction, and of one of ranges."""
QUANTILES = [f"centred_{name}" for name in ("q05", "q25", "q50", "q75", "q95")]
LOW, QUARTER, MEDIAN, THREE_QUARTERS, HIGH = QUANTILES
PLAIN = "q50"
AXIS_TITLE = "centred cosine"
RANGES = {
    "own": ("own examples", PALETTE[0]),
    "other": ("other classes, from the lowest median to the highest", "#8A8A8A"),
    "nearest": ("nearest other class", PALETTE[1]),
}
"""What is drawn of many classes."""


@figure(
    "class_cones",
    question="classes",
    marks={
        "box": "Box: the middle half of the examples; stroke: the median; whisker: 5 % to 95 %.",
        "others": "Grey are the other classes, from the lowest of their medians to the highest; orange is the nearest of them.",
    },
)
def class_cones(tables: Tables) -> Chart | None:
    """Cosines of examples with the direction of each class, around the mean of all these directions.

    Of the vectors of texts in the last layer: cos(u - m, r - m), with u the unit vector of an example, r the direction of a
    class and m the mean of the directions of all classes, which takes out what all classes share. Above 0 an example lies to the
    side of that class, below 0 to that of the others. Where a class's own examples stand clear above the others, its direction
    tells it. No example is scored with a direction that it helped to make: directions are means of the other half of the corpus.
    Medians of plain cosines are told on hovering.
    """
    frame = table_of(tables, "class_cones")
    frame = last_layer(frame.dropna(subset=MEDIAN)) if MEDIAN in frame else frame[:0]
    frame = frame[frame["representative"].isin(list(DIRECTIONS))]
    if frame.empty:
        return None
    few = max(len(classes) for _, classes in frame.groupby("run")["class"].unique().items()) <= FEW
    if few:
        return _boxes(panels_of(frame), class_order(tables))
    return _ranges(panels_of(frame[frame["representative"] == "held_out"], RANGED // LETTER))


def class_order(tables: Tables) -> list[Any]:
    """The classes as the model has them, so that a class has one colour in all figures.

    In the rows of held-out means all of them are; a class has no first right example where the model gets none right.
    """
    if name_of(tables, "class_cones") is None:
        return []
    frame = table_of(tables, "class_cones", "class", "representative")
    return list(frame.sort_values("representative", key=lambda of: of != "held_out", kind="stable")["class"].unique())


def last_layer(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The last layer of each run and site."""
    return frame[frame["layer"] == frame.groupby(["run", "site"])["layer"].transform("max")]


def panels_of(frame: "pd.DataFrame", columns: int = HEADER) -> "pd.DataFrame":
    """With `panel`: of one run a panel for each site, of several the hidden states of each, whose name has so many columns."""
    runs = shown(runs_of(frame), columns)
    if len(runs) == 1:
        named = lines_of(frame, "site", SITES)
        return named.assign(panel=named["line"])
    hidden = frame[frame["site"] == "hidden"]
    return hidden.assign(panel=hidden["run"].map(runs))


def _boxes(frame: "pd.DataFrame", order: list[Any]) -> Chart:
    """A box for each two classes."""
    import altair as alt

    published = "first" in set(frame["representative"])
    frame = lines_of(frame, "representative", DIRECTIONS)
    # A run has a line of the header to itself: its name may be as long as that.
    both = frame["class"].nunique() == 2
    between = "\n" if both or len(runs_of(frame)) > 1 else ": "
    panels = [f"{panel}{between}{line}" for panel in frame["panel"].unique() for line in frame["line"].unique()]
    frame = frame.assign(panel=frame["panel"] + between + frame["line"])
    there = {*frame["class"], *frame["gold"]}
    names = shown([*(name for name in order if name in there), *frame["gold"]], AXIS)
    classes = list(names.values())
    # The directions of two classes are opposite around their mean: the other one would be the same boxes upside down.
    frame = frame[frame["class"] == list(names)[-1]] if both else frame
    flat = both or max(map(columns_of, classes)) * LETTER * len(classes) <= BOXES
    drawn = renamed(frame[["panel", "class", "gold", "n", *QUANTILES, PLAIN]], names, "class", "gold")
    base = alt.Chart(drawn).encode(
        alt.X("class:N", title="direction of the class", sort=classes).axis(labelAngle=0 if flat else -90),
        alt.XOffset("gold:N", sort=classes),
        alt.Color("gold:N", title="class of the examples")
        .scale(domain=classes, range=colours_of(classes))
        .legend(symbolOpacity=1, **below(classes)),
        tooltip=[alt.Tooltip("class", title="direction of"), alt.Tooltip("gold", title="examples of"), "n", *_told()],
    )
    low, quarter, middle = (_centred(alt.Y(f"{name}:Q")) for name in (LOW, QUARTER, MEDIAN))
    # The median speaks for its box to those who hear the figure, once.
    chart = alt.layer(
        base.mark_rule(aria=False).encode(low, alt.Y2(f"{HIGH}:Q")),
        base.mark_bar(opacity=0.45, aria=False, style="box").encode(quarter, alt.Y2(f"{THREE_QUARTERS}:Q")),
        base.mark_tick(thickness=2.5).encode(middle),
    )
    panels = [panel for panel in panels if panel in set(drawn["panel"])]
    # Names of runs in the headers need the width of two.
    columns = 3 if both and len(runs_of(frame)) == 1 else 2
    faceted = paneled(chart.properties(width=ALONE if both else BOXES, height=180), panels, columns=columns)
    faceted = faceted.resolve_scale(x="independent", xOffset="independent")
    return noted(faceted, PUBLISHED if published else "", OPPOSITE if both else "")


def _centred(channel: Any) -> Any:
    """An axis of centred cosines, from end to end, with a stronger line at zero."""
    import altair as alt

    span = [-1.0, 1.0]
    return channel.title(AXIS_TITLE).scale(alt.Scale(domain=span)).axis(tickCount=5, **grid(span))


def _told() -> list[Any]:
    """What is told of a class's examples on hovering."""
    import altair as alt

    names = zip(("5 %", "25 %", "median", "75 %", "95 %"), QUANTILES, strict=True)
    centred = [alt.Tooltip(f"{name}:Q", title=f"{AXIS_TITLE}, {said}", format=".3f") for said, name in names]
    return [*centred, alt.Tooltip(f"{PLAIN}:Q", title="plain cosine, median", format=".5f")]


def _ranges(frame: "pd.DataFrame") -> Chart:
    """A box for each class, and the range of the other classes' medians."""
    import altair as alt

    names = shown([*frame["class"], *frame["gold"]], AXIS)
    drawn = _own_and_others(renamed(frame, names, "class", "gold"))
    # The order of the first panel, for all: what is low in one is to be found in the next.
    every = list(drawn.sort_values(MEDIAN, ascending=False)["class"].unique())
    order = [every[place * len(every) // MOST] for place in range(MOST)] if len(every) > MOST else every
    drawn = drawn[drawn["class"].isin(order)].assign(**{of: name for of, (name, _) in RANGES.items()})
    ends = [alt.Tooltip(f"{name}:Q", title=f"{name} median of another", format=".3f") for name in ("lowest", "highest")]
    base = alt.Chart(drawn).encode(
        alt.Y("class:N", title=None, sort=order),
        tooltip=["class", "n", *_told(), *ends, alt.Tooltip("whose", title="nearest other")],
    )

    def part(mark: Chart, start: str, end: str | None, of: str) -> Chart:
        across = mark.encode(_centred(alt.X(f"{start}:Q")), _coloured(of))
        return across.encode(alt.X2(f"{end}:Q")) if end else across

    chart = alt.layer(
        part(base.mark_rule(strokeWidth=4, opacity=0.5, aria=False, style="others"), "lowest", "highest", "other"),
        part(base.mark_rule(aria=False), LOW, HIGH, "own"),
        part(base.mark_bar(opacity=0.45, aria=False, style="box"), QUARTER, THREE_QUARTERS, "own"),
        part(base.mark_tick(thickness=2.5), MEDIAN, None, "own"),
        part(base.mark_tick(thickness=2.5, aria=False), "highest", None, "nearest"),
    )
    faceted = paneled(chart.properties(width=RANGED, height=alt.Step(15)), list(drawn["panel"].unique()))
    left_out = f"{MOST} of {len(every)} classes are drawn, evenly chosen by the median of their own examples."
    return noted(faceted, left_out if len(every) > MOST else "")


def _own_and_others(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each panel and class: quantiles of its own examples, lowest and highest median of the others, and whose it is."""
    own = frame[frame["class"] == frame["gold"]][["panel", "class", "n", *QUANTILES, PLAIN]]
    others = frame[frame["class"] != frame["gold"]].sort_values(MEDIAN)
    ends = others.groupby(["panel", "class"], as_index=False).agg(
        lowest=(MEDIAN, "first"), highest=(MEDIAN, "last"), whose=("gold", "last")
    )
    return own.merge(ends, on=["panel", "class"])


def _coloured(of: str) -> Any:
    """The colour of a part, by a column of its own that holds its name alone."""
    import altair as alt

    names, colours = zip(*RANGES.values(), strict=True)
    scale = alt.Scale(domain=list(names), range=list(colours))
    return alt.Color(f"{of}:N", scale=scale, legend=alt.Legend(title=None, symbolOpacity=1, **below(names)))
