"""Classes: the cosines of examples with the direction of each class, and what the nearest direction would answer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from conoscope.figures.base import DIGITS, NORMAL, Chart, Tables, figure, runs_of, table_of
from conoscope.figures.lines import lines_of
from conoscope.figures.marks import AXIS, HEADER, LETTER, SITES, below, colours_of, columns_of, renamed, shown
from conoscope.figures.panels import paneled
from conoscope.figures.theme import GREY, PALETTE

if TYPE_CHECKING:
    import pandas as pd

DIRECTIONS = {"held_out": "mean of the other half", "first": "first right example"}
"""Representatives whose cosines are drawn: that which no scored example helped to make, and the published one."""
FEW, MOST = 6, 40
"""Classes that get a box for each two of them, and classes that are drawn."""
BOXES, RANGED, ANSWERED = 300, 240, 165
"""Pixels of a panel of boxes, of one of ranges, and of one of answers."""
QUANTILES = ["q05", "q25", "q50", "q75", "q95"]
RANGES = {
    "own": ("own examples", PALETTE[0]),
    "other": ("other classes, from the lowest median to the highest", "#8A8A8A"),
    "nearest": ("nearest other class", PALETTE[1]),
}
"""What is drawn of many classes."""
KINDS = {
    "first": "first right example",
    "mean": "mean",
    "held_out": "mean of the other half",
    "medoid": "middle example",
    "norm": "control: length alone",
    "shuffled": "control: labels shuffled",
}
UPRIGHT = "M0,-1.3L0,1.3"
"""A shape: an upright stroke."""
ANSWERS = {
    "value": ("nearest cone", PALETTE[0], "circle"),
    "agreement": ("answers as the model", PALETTE[1], "diamond"),
    "model": ("the model itself", PALETTE[2], UPRIGHT),
    "chance": ("largest class (chance)", GREY, UPRIGHT),
}
"""Columns of `class_cones.nearest`, how they are called, and their marks."""


@figure("class_cones", question="classes")
def class_cones(tables: Tables) -> Chart | None:
    """Cosines of examples with the direction of each class, by the class of the examples.

    Of what the classifier reads in the last layer. Box: the middle half of the examples; stroke: the median; whisker: 5 % to
    95 %. Where a class's own examples stand clear above the others, its direction tells it. No example is scored with a
    direction that it helped to make: directions are means of the other half of the corpus, or the first example that the model
    gets right, as published. With more than 6 classes the others are one grey range, from the lowest of their medians to the
    highest; at most 40 classes are drawn, evenly chosen by the median of their own examples.
    """
    frame = last_layer(table_of(tables, "class_cones").dropna(subset="q50"))
    frame = frame[frame["representative"].isin(list(DIRECTIONS))]
    if frame.empty:
        return None
    few = max(len(classes) for _, classes in frame.groupby("run")["class"].unique().items()) <= FEW
    return _boxes(panels_of(frame)) if few else _ranges(panels_of(frame[frame["representative"] == "held_out"], RANGED // LETTER))


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


def _boxes(frame: "pd.DataFrame") -> Chart:
    """A box for each two classes."""
    import altair as alt

    frame = lines_of(frame, "representative", DIRECTIONS)
    # A run has a line of the header to itself: its name may be as long as that.
    between = "\n" if len(runs_of(frame)) > 1 else ": "
    panels = [f"{panel}{between}{line}" for panel in frame["panel"].unique() for line in frame["line"].unique()]
    frame = frame.assign(panel=frame["panel"] + between + frame["line"])
    names = shown([*frame["class"], *frame["gold"]], AXIS)
    classes = list(names.values())
    flat = max(map(columns_of, classes)) * LETTER * len(classes) <= BOXES
    drawn = renamed(frame[["panel", "class", "gold", "n", *QUANTILES]], names, "class", "gold")
    base = alt.Chart(drawn).encode(
        alt.X("class:N", title="direction of the class", sort=classes).axis(labelAngle=0 if flat else -90),
        alt.XOffset("gold:N", sort=classes),
        alt.Color("gold:N", title="class of the examples")
        .scale(domain=classes, range=colours_of(classes))
        .legend(symbolOpacity=1, **below(classes)),
        tooltip=["class", "gold", "n", *_formatted(QUANTILES)],
    )
    scale = alt.Scale(domain=[min(0.0, float(drawn["q05"].min())), 1], nice=True)
    low, quarter, middle = (alt.Y(f"{name}:Q", title="cosine", scale=scale) for name in QUANTILES[:3])
    # The median speaks for its box to those who hear the figure, once.
    chart = alt.layer(
        base.mark_rule(aria=False).encode(low, alt.Y2("q95:Q")),
        base.mark_bar(opacity=0.45, aria=False).encode(quarter, alt.Y2("q75:Q")),
        base.mark_tick(thickness=2.5).encode(middle),
    )
    there = [panel for panel in panels if panel in set(drawn["panel"])]
    return paneled(chart.properties(width=BOXES, height=180), there).resolve_scale(x="independent", xOffset="independent")


def _formatted(names: Iterable[str]) -> list[Any]:
    import altair as alt

    return [alt.Tooltip(f"{name}:Q", format=".3f") for name in names]


def _ranges(frame: "pd.DataFrame") -> Chart:
    """A box for each class, and the range of the other classes' medians."""
    import altair as alt

    names = shown([*frame["class"], *frame["gold"]], AXIS)
    drawn = _own_and_others(renamed(frame, names, "class", "gold"))
    # The order of the first panel, for all: what is low in one is to be found in the next.
    order = list(drawn.sort_values("q50", ascending=False)["class"].unique())
    order = [order[place * len(order) // MOST] for place in range(MOST)] if len(order) > MOST else order
    drawn = drawn[drawn["class"].isin(order)].assign(**{of: name for of, (name, _) in RANGES.items()})
    base = alt.Chart(drawn).encode(
        alt.Y("class:N", title=None, sort=order),
        tooltip=["class", "n", *_formatted([*QUANTILES, "lowest", "highest"]), alt.Tooltip("whose", title="nearest other")],
    )
    scale = alt.Scale(domain=[min(0.0, float(drawn[["q05", "lowest"]].min().min())), 1], nice=True)

    def part(mark: Chart, start: str, end: str | None, of: str) -> Chart:
        across = mark.encode(alt.X(f"{start}:Q", title="cosine", scale=scale), _coloured(of))
        return across.encode(alt.X2(f"{end}:Q")) if end else across

    chart = alt.layer(
        part(base.mark_rule(strokeWidth=4, opacity=0.5, aria=False), "lowest", "highest", "other"),
        part(base.mark_tick(thickness=2.5, aria=False), "highest", None, "nearest"),
        part(base.mark_rule(aria=False), "q05", "q95", "own"),
        part(base.mark_bar(opacity=0.45, aria=False), "q25", "q75", "own"),
        part(base.mark_tick(thickness=2.5), "q50", None, "own"),
    )
    return paneled(chart.properties(width=RANGED, height=alt.Step(15)), list(drawn["panel"].unique()))


def _own_and_others(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each panel and class: quantiles of its own examples, lowest and highest median of the others, and whose it is."""
    own = frame[frame["class"] == frame["gold"]][["panel", "class", "n", *QUANTILES]]
    others = frame[frame["class"] != frame["gold"]].sort_values("q50")
    ends = others.groupby(["panel", "class"], as_index=False).agg(
        lowest=("q50", "first"), highest=("q50", "last"), whose=("gold", "last")
    )
    return own.merge(ends, on=["panel", "class"])


def _coloured(of: str) -> Any:
    """The colour of a part, by a column of its own that holds its name alone."""
    import altair as alt

    names, colours = zip(*RANGES.values(), strict=True)
    scale = alt.Scale(domain=list(names), range=list(colours))
    return alt.Color(f"{of}:N", scale=scale, legend=alt.Legend(title=None, symbolOpacity=1, **below(names)))


@figure("class_cones.nearest", question="classes")
def nearest_cone(tables: Tables) -> Chart | None:
    """How well the nearest direction alone would classify.

    Each example is given the class whose direction is nearest; rows are ways to choose a class's direction, and two controls.
    The line through a dot is the 95 % interval. Near the model, direction tells the class; a control near it would say that
    lengths tell it too, or that labels dealt anew do. The diamond is the share of examples that get the model's own answer.
    """
    import altair as alt

    frame = panels_of(last_layer(table_of(tables, "class_cones.nearest")), ANSWERED // LETTER)
    if frame.empty:
        return None
    drawn, marks = _answers(frame)
    names = list(marks)
    scale, legend = (
        alt.Scale(domain=names, range=[colour for colour, _ in marks.values()]),
        alt.Legend(title=None, **below(names)),
    )
    shapes = alt.Scale(domain=names, range=[shape for _, shape in marks.values()])
    base = alt.Chart(drawn).encode(
        alt.Y("kind:N", title=None, sort=list(KINDS.values())),
        alt.Color("what:N", scale=scale, legend=legend),
    )
    share = alt.X("share:Q", title="share of the examples").scale(domain=[0, 1])
    tips = [
        alt.Tooltip("what", title="share of"),
        alt.Tooltip("kind", title="direction"),
        *_formatted(["share", "low", "high"]),
        "n",
    ]
    chart = alt.layer(
        base.mark_rule().encode(alt.X("low:Q", title="share of the examples"), alt.X2("high:Q")),
        base.mark_point(size=60, strokeWidth=2, opacity=1).encode(
            share, alt.Shape("what:N", scale=shapes, legend=legend), tooltip=tips
        ),
    )
    return paneled(chart.properties(width=ANSWERED, height=alt.Step(24)), list(drawn["panel"].unique()), columns=3)


def _answers(frame: "pd.DataFrame") -> tuple["pd.DataFrame", dict[str, tuple[str, str]]]:
    """A row for each mark, and colour and shape of those that there are; the interval stays within [0, 1]."""
    kinds = frame["representative"].where(frame["control"] == "none", frame["control"]).map(KINDS)
    long = frame.assign(kind=kinds).melt(["panel", "kind", "n", "sd"], list(ANSWERS), "of", "share").dropna(subset="share")
    error = NORMAL * (long["sd"] / long["n"].astype(float) ** 0.5).where(long["of"] == "value")
    low, high = ((long["share"] + side * error).clip(0, 1).round(DIGITS) for side in (-1, 1))
    there = {name: (colour, shape) for of, (name, colour, shape) in ANSWERS.items() if of in set(long["of"])}
    what = long["of"].map({of: name for of, (name, _, _) in ANSWERS.items()})
    return long.assign(what=what, low=low, high=high)[["panel", "kind", "what", "share", "low", "high", "n"]], there
