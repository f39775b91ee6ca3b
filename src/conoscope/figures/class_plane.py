"""The plane: examples of each class where they lie, in two directions, layer by layer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, name_of, noted, runs_of, table_of
from conoscope.figures.classes import class_order
from conoscope.figures.marks import colours_of, counted, cut, left_out, shapes_of, shown, ticks
from conoscope.figures.theme import GREY

if TYPE_CHECKING:
    import pandas as pd

POINTS = 2400
"""Points in all: as many as a page bears. Where there are more, layers are left out, and the caption says which."""
CLASSES = 14
"""Classes that have a mark of their own: seven colours, twice."""
SIDE, COLUMNS = 140, 4
"""Pixels of a panel, and panels beside each other."""
NARROWEST = 20
"""Columns that fit above a panel, and in a legend of four beside each other."""
TEXT = 96
"""Columns of an example's text that are told on hovering."""
SIZE = 9 * math.pi
"""Of a mark: a circle of three pixels, which takes few digits to write."""
NONE = -1
"""The answer of a model that does not classify."""
OTHER = "other classes"
ANSWERS = {"right": 0.7, "wrong": 0.0}
"""How full the mark of an example is, by what the model answers."""
MARKS = {
    "example": "A mark is the vector of one example; colour and shape are its class.",
    "wrong": "Hollow marks are examples for which the model answers another class.",
    "shared": f"Of more than {CLASSES} classes those with fewest examples share a grey mark.",
}


@figure("class_cones.plane", question="classes", marks=MARKS)
def class_plane(tables: Tables) -> Chart | None:
    """Where examples of each class lie, in the plane of the two directions along which they differ most, by layer.

    Around the mean of the examples, which lies at 0. Both axes of a panel have one scale, so that angles are as they
    are in the plane; scales differ between panels. A header says how much of the variance the plane holds. Where classes lie
    apart, the layer tells them in these two directions; where they do not, it may in others.
    """
    return _plane(tables, "pca")


@figure("class_cones.plane", question="classes", marks=MARKS)
def class_plane_means(tables: Tables) -> Chart | None:
    """Where examples of each class lie, in the plane of the class means, by layer.

    As the plane of the directions along which examples differ most, but in the directions along which the means of their classes
    do; of two classes the second is that in which examples differ most across the first. It is the kindest view: directions are
    chosen by the labels, so that of few examples classes lie apart by accident too. Both axes of a panel have one scale; a header
    says how much of the variance the plane holds.
    """
    return _plane(tables, "means")


def _plane(tables: Tables, projection: str) -> Chart | None:
    import altair as alt

    frame = table_of(tables, "class_cones.plane")
    frame = frame[(frame["projection"] == projection) & (frame["site"] == "hidden") & frame["second"].notna()]
    if frame.empty:
        return None
    chosen = _layers(frame)
    runs = shown(runs_of(frame), NARROWEST)
    drawn = frame[[layer in chosen[run] for run, layer in zip(frame["run"], frame["layer"], strict=True)]]
    drawn = drawn.assign(key=drawn.groupby(["run", "example"], sort=False).ngroup())
    names = _classes(drawn["gold"], class_order(tables))
    marks = _Marks(_examples(drawn, names), list(dict.fromkeys(names.values())))
    charts = []
    for (run, layer), part in drawn.groupby(["run", "layer"], sort=False):
        header = f"layer {layer} ({part['share'].iloc[0]:.0%})"
        title = [runs[run], header] if len(runs) > 1 else header
        charts.append(_panel(part, marks).properties(width=SIDE, height=SIDE, title=title))
    left = {run: sorted(set(map(int, frame["layer"][frame["run"] == run])) - chosen[run]) for run in runs_of(frame)}
    columns = next((count for count in (4, 3) if len(charts) % (count * len(runs)) == 0), COLUMNS)
    notes = _left_out({runs[run]: found for run, found in left.items()}), _flat(tables, frame, runs)
    return noted(alt.concat(*charts, columns=columns, spacing=14), *notes)


def _layers(frame: "pd.DataFrame") -> dict[str, set[int]]:
    """The layers of each run that are drawn: all, or so many, evenly chosen with the last among them, as there is room for."""
    parts = {run: frame[frame["run"] == run] for run in runs_of(frame)}
    if len(frame) <= POINTS:
        return {run: set(map(int, part["layer"])) for run, part in parts.items()}
    found = {}
    for run, part in parts.items():
        there = sorted(set(map(int, part["layer"])))
        count = max(1, min(len(there), POINTS // len(parts) * len(there) // len(part)))
        found[run] = {there[-1 - place * len(there) // count] for place in range(count)}
    return found


def _left_out(layers: Mapping[str, list[int]]) -> str:
    """What is said of layers that are not drawn."""
    there = {run: numbers for run, numbers in layers.items() if numbers}
    if not there or (len(there) == len(layers) and len(set(map(tuple, there.values()))) == 1):
        return left_out(next(iter(there.values()), []))
    return f"Left out, for want of room: {'; '.join(f'{counted(numbers)} of {run}' for run, numbers in there.items())}."


def _flat(tables: Tables, frame: "pd.DataFrame", runs: Mapping[str, str]) -> str:
    """What is said of layers that were measured and have no plane, as where [CLS] is one vector for all texts."""
    if name_of(tables, "class_cones") is None:
        return ""
    measured = table_of(tables, "class_cones", "site", "layer")
    measured = measured[measured["site"] == "hidden"]
    said = []
    for run, name in runs.items():
        every, drawn = (set(map(int, rows["layer"][rows["run"] == run].unique())) for rows in (measured, frame))
        if flat := sorted(every - drawn):
            said.append(counted(flat) + (f" of {name}" if len(runs) > 1 else ""))
    return f"Texts do not differ along two directions in {' and '.join(said)}, so that there is no plane." if said else ""


@dataclass(frozen=True)
class _Marks:
    """What is known of each example, once for all layers, and the classes that are told apart."""

    examples: "pd.DataFrame"
    names: list[str]

    @property
    def styles(self) -> list[str]:
        """What is to be seen of the examples."""
        wrong = ["wrong"] if (self.examples["answer"] == "wrong").any() else []
        return ["example", *wrong, *(["shared"] if OTHER in self.names else [])]


def _examples(frame: "pd.DataFrame", names: Mapping[Any, str]) -> "pd.DataFrame":
    """A row for each run and example: class, answer, name, and the text where it is known."""
    import pandas as pd

    each = frame.drop_duplicates("key")
    answers = {**shown(frame["predicted"]), NONE: "none"}
    rows = zip(each["gold"], each["predicted"], strict=True)
    texts = each["text"] if "text" in each else [""] * len(each)
    return pd.DataFrame(
        {
            "key": each["key"].to_list(),
            "gold": each["gold"].map(names).to_list(),
            "predicted": each["predicted"].map(answers).to_list(),
            "answer": ["right" if predicted in (NONE, gold) else "wrong" for gold, predicted in rows],
            "example": [cut(name, 64) for name in each["example"]],
            "text": [cut(text, TEXT) if text else "" for text in texts],
        }
    )


def _panel(part: "pd.DataFrame", marks: _Marks) -> Chart:
    """The points of one layer, both axes on one scale."""
    import altair as alt
    import pandas as pd

    points = pd.DataFrame(
        {
            "x": [float(f"{value:.3g}") for value in part["value"]],
            "y": [float(f"{value:.3g}") for value in part["second"]],
            "key": part["key"].to_list(),
        }
    )
    ends = _ends(points)
    x, y = (alt.Scale(domain=domain, nice=False, zero=False) for domain in ends)
    across, up = (ticks(_marked(domain)) for domain in ends)
    bare: dict[str, Any] = {"grid": False, "format": "~r", "labelFontSize": 10, "labelFlush": False}
    known = [str(name) for name in marks.examples if name != "key"]
    told = [alt.Tooltip("gold:N", title="class"), alt.Tooltip("predicted:N", title="the model's answer"), "example:N"]
    if marks.examples["text"].any():
        told.append("text:N")
    return (
        alt.Chart(points)
        .transform_lookup("key", alt.LookupData(marks.examples, "key", known))
        .mark_point(size=SIZE, strokeWidth=1.3, aria=False, style=marks.styles)
        .encode(
            alt.X("x:Q", title=None, scale=x).axis(**across, **bare),
            alt.Y("y:Q", title=None, scale=y).axis(**up, **bare),
            *_channels(marks.names),
            tooltip=told,
        )
    )


def _ends(points: "pd.DataFrame") -> list[list[float]]:
    """From where to where both axes go: around the middle of the points, and equally far."""
    low, high = points[["x", "y"]].min(), points[["x", "y"]].max()
    reach = 0.54 * float((high - low).max()) or 1.0
    return [[float(f"{(low[name] + high[name]) / 2 + side * reach:.6g}") for side in (-1, 1)] for name in ("x", "y")]


def _marked(ends: list[float]) -> list[float]:
    """The numbers that an axis has: steps of 1, 2 or 5, two of them at least, so that a scale can be read, and few."""
    span = ends[1] - ends[0]
    power = 10.0 ** math.floor(math.log10(span / 2))
    step = power * max(factor for factor in (1, 2, 5) if factor * power <= span / 2)
    first, last = math.ceil(ends[0] / step), math.floor(ends[1] / step)
    return [float(f"{place * step:.6g}") for place in range(first, last + 1)]


def _classes(gold: "pd.Series[Any]", order: list[Any]) -> dict[Any, str]:
    """Each class as it is shown, in that order; of many, those with fewest examples under one name at the end."""
    counts = gold.value_counts()
    there = [name for name in order if name in counts] + sorted(set(counts.index) - set(order), key=str)
    kept = set(counts.index[: len(there) if len(there) <= CLASSES else CLASSES - 1])
    names = shown(sorted(there, key=lambda name: name not in kept), NARROWEST)
    return {name: short if name in kept else OTHER for name, short in names.items()}


def _channels(names: list[str]) -> list[Any]:
    """Colour and shape by class, fullness by the model's answer."""
    import altair as alt

    colours = [GREY if name == OTHER else colour for name, colour in zip(names, colours_of(names), strict=True)]
    scale = alt.Scale(domain=names, range=colours)
    legend = alt.Legend(title=None, orient="bottom", columns=4, symbolLimit=CLASSES, symbolOpacity=1)
    full = alt.Scale(domain=list(ANSWERS), range=list(ANSWERS.values()))
    return [
        alt.Stroke("gold:N", scale=scale, legend=legend),
        alt.Fill("gold:N", scale=scale, legend=legend),
        alt.Shape("gold:N", legend=legend).scale(domain=names, range=shapes_of(names)),
        alt.FillOpacity("answer:O", scale=full, legend=None),
    ]
