"""Attention maps: whole maps of heads, each as one image."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, name_of, noted, runs_of, table_of
from conoscope.figures.heat import across, down, ramp
from conoscope.figures.marks import LETTER, cut, left_out
from conoscope.figures.panels import stacked
from conoscope.figures.pictures import picture
from conoscope.figures.theme import GREY, SEQUENTIAL

if TYPE_CHECKING:
    import pandas as pd

ROOM = 660
LARGEST = 96
"""How wide a map is at most, in pixels."""
MAPS = 384
"""Of a model with more heads than this some layers are drawn, evenly spaced."""
TOLD = 300
"""How many cells of class maps tell their numbers on hovering, the strongest."""
HEAD = ["run", "layer", "head"]


@figure(
    "gates.maps",
    question="heads",
    marks={
        "map": "A square is a head: down who looks, across what is looked at. A bright column is a token that all look at, a "
        "diagonal a neighbour or the token itself, an even square a head that looks everywhere.",
        "largest": "The number below a map is the head's largest weight, which is its brightest colour.",
    },
)
def attention_maps(tables: Tables) -> Chart | None:
    """The mean attention map of every head.

    The first and the last row and column are the first and the last token, as [CLS] and [SEP]; between them are the words from
    the beginning of a text to its end. Bright is the head's own largest weight; the steps of colour are of square roots, so that
    faint patterns show: compare patterns, not brightness.
    """

    frame = table_of(tables, "gates.maps", "layer", "head", "query", "key", "value").astype({"layer": int, "head": int})
    if frame.empty:
        return None
    gates = _gates(tables)
    images = {run: _images(frame[frame["run"] == run], gates) for run in runs_of(frame)}
    left = {layer for run, found in images.items() for layer in set(frame["layer"][frame["run"] == run]) - set(found["layer"])}
    return noted(stacked({run: _grid(found) for run, found in images.items()}), left_out(sorted(left)))


def _gates(tables: Tables) -> "pd.DataFrame | None":
    return None if name_of(tables, "gates.names") is None else table_of(tables, "gates.names", "layer", "head", "gates")


def _images(frame: "pd.DataFrame", gates: "pd.DataFrame | None") -> "pd.DataFrame":
    """A row for each head: its map as an image, its largest weight and, where they are known, its gates."""
    import pandas as pd

    layers, size = sorted(frame["layer"].unique()), _size(frame)
    every = -(-len(layers) * frame["head"].nunique() // MAPS)
    rows = []
    for (run, layer, head), one in frame[frame["layer"].isin(layers[::every])].groupby(HEAD):
        matrix = one.pivot(index="query", columns="key", values="value").fillna(0).to_numpy(float)
        largest = matrix.max()
        # Special tokens get so much that all the rest would look alike without a root.
        url = picture((matrix / (largest or 1)) ** 0.5, size)
        rows.append({"run": run, "layer": layer, "head": head, "url": url, "largest": largest})
    images = pd.DataFrame(rows)
    return images if gates is None else images.merge(gates, how="left", on=HEAD)


def _size(frame: "pd.DataFrame") -> int:
    return max(8, min(LARGEST, ROOM // int(frame["head"].nunique()) - 4))


def _grid(images: "pd.DataFrame") -> Chart:
    import altair as alt
    import pandas as pd

    size = _size(images)
    written = size >= 24
    told = ["layer:O", "head:O", *(["gates:N"] if "gates" in images else [])]
    base = alt.Chart(images.drop(columns="run")).encode(
        across(alt.X("head:O", title="head"), images["head"], size + 4),
        down(alt.Y("layer:O", title="layer"), images["layer"], size + (14 if written else 4)),
    )
    maps = base.mark_image(width=size, height=size, aria=False, yOffset=-5 if written else 0, style="map").encode(
        url="url:N", tooltip=[*told, alt.Tooltip("largest:Q", title="largest weight", format=".3f")]
    )
    below = base.mark_text(fontSize=9, color=GREY, dy=size / 2 + 1, aria=False, style="largest")
    numbers = below.encode(alt.Text("largest:Q", format=".2f"))
    # Images have no scale of colours, so an unseen point brings its legend.
    color = alt.Color("weight:Q", title="weight, of the head's largest").scale(type="sqrt", scheme=SEQUENTIAL, domain=[0, 1])
    unseen = alt.Chart(pd.DataFrame({"weight": [0]})).mark_point(size=0, opacity=0, aria=False)
    legend = unseen.encode(ramp(color, values=[0, 0.1, 0.5, 1]))
    step = {"width": (size + 4) * images["head"].nunique(), "height": (size + (14 if written else 4)) * images["layer"].nunique()}
    return alt.layer(maps, *([numbers] if written else []), legend).properties(**step)


@figure("class_maps", question="heads")
def class_maps(tables: Tables) -> Chart | None:
    """The mean attention map of heads that were asked for, by class.

    Down is the token that looks, across the one that is looked at, both counted from 0; colour is the mean weight over the texts
    of a class that the model gets right. Classes of one head share a scale, heads do not. What is bright for one class alone is
    what the head does for it. Weights below .01 were left out and are as dark as none.
    """
    import altair as alt
    import pandas as pd

    columns = ("layer", "head", "class", "query", "key", "value")
    names = [name for name in tables if name.split(":")[0] == "class_maps"]
    frame = pd.concat([table_of({name: tables[name]}, name, *columns) for name in names]).drop_duplicates()
    if frame.empty:
        return None
    frame = frame.astype(dict.fromkeys(("layer", "head", "query", "key"), int)).rename(columns={"class": "label"})
    told = max(10, TOLD // frame.groupby([*HEAD, "label"]).ngroups)
    several = len(runs_of(frame)) > 1
    rows = [
        _classes(one, told).properties(title=f"layer {layer}, head {head}" + (f", {cut(run, 72)}" if several else ""))
        for (run, layer, head), one in frame.groupby(HEAD, sort=False)
    ]
    return alt.vconcat(*rows).resolve_scale(color="independent")


def _classes(frame: "pd.DataFrame", told: int) -> Chart:
    import altair as alt

    labels = list(frame["label"].unique())
    columns = min(len(labels), 4)
    size = min(280, ROOM // columns - 30)
    count, largest = int(frame[["query", "key"]].max().max()) + 1, frame["value"].max()
    panels = {label: _panel(frame[frame["label"] == label], size, count, largest, told) for label in labels}
    charts = [panel.properties(width=size, height=size, title=cut(label, size // LETTER)) for label, panel in panels.items()]
    return alt.concat(*charts, columns=columns)


def _panel(part: "pd.DataFrame", size: int, count: int, largest: float, told: int) -> Chart:
    import altair as alt
    import numpy as np
    import pandas as pd

    matrix = np.zeros((count, count))
    matrix[part["query"], part["key"]] = part["value"] / largest
    image = alt.Chart(pd.DataFrame({"url": [picture(matrix, size)]})).mark_image(
        width=size, height=size, aspect=False, aria=False
    )
    strongest = part.nlargest(told, "value")[["query", "key", "value"]]
    color = alt.Color("value:Q", title="mean weight").scale(scheme=SEQUENTIAL, domain=[0, largest])
    ends: dict[str, Any] = {"domain": [-0.5, count - 0.5], "nice": False, "zero": False}
    cells = alt.Chart(strongest).mark_square(size=(size / count) ** 2, opacity=0, aria=False).encode(
        alt.X("key:Q", title="token that is looked at").scale(**ends).axis(grid=False, tickMinStep=1),
        alt.Y("query:Q", title="token that looks").scale(reverse=True, **ends).axis(grid=False, tickMinStep=1),
        ramp(color, tickCount=3),
        tooltip=["query:Q", "key:Q", alt.Tooltip("value:Q", format=".3f")],
    )  # fmt: skip
    return alt.layer(image.encode(x=alt.value(size / 2), y=alt.value(size / 2), url="url:N"), cells)
