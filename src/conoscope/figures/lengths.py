"""Lengths: histograms of how long vectors are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor, log2, log10
from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, noted, runs_of, table_of
from conoscope.figures.marks import SITES, left_out, ticks
from conoscope.figures.panels import stacked
from conoscope.figures.theme import PALETTE

if TYPE_CHECKING:
    import pandas as pd

DRAWN = ("query", "key", "value", "hidden")
DOUBLING = 8
"""How many bins are drawn to a doubling; half as many as were counted."""
SEEN = 0.002
"""A bin with a smaller share of the peak would not be seen."""
REACH = 0.9
"""How many rows a peak is high."""
ROOM = 720
LAYERS = 25
"""Of a model with more layers than this some are drawn, evenly spaced."""


@figure(
    "vector_norms.histogram",
    question="heads",
    marks={
        "histogram": "A histogram for each layer, on a logarithmic axis; each is as high as the others, whatever its peak. A "
        "narrow one says that all vectors are of one length and differ in direction alone, several that kinds of tokens differ."
    },
)
def norm_histograms(tables: Tables) -> Chart | None:
    """How long queries, keys, values and hidden states are, by layer.

    Euclidean lengths over the tokens of all texts and over all heads. Special tokens often differ from others. Long keys sharpen
    attention, short values silence a token. Layer 0, the embedding, has hidden states alone. Lengths of 0 and very rare ones are
    not drawn.
    """

    frame = table_of(tables, "vector_norms.histogram", "site", "layer", "low", "count")
    frame = frame[(frame["count"] > 0) & (frame["low"] > 0) & frame["site"].isin(DRAWN)]
    if frame.empty:
        return None
    ridges = _ridges(frame)
    sites = [site for site in DRAWN if site in set(ridges["site"])]
    axes = {site: _axis(ridges["length"][ridges["site"] == site], min(300, ROOM // len(sites) - 34)) for site in sites}
    charts = {run: _row(ridges[ridges["run"] == run].drop(columns="run"), axes) for run in runs_of(ridges)}
    drawn, every = ({(run, layer) for run, layer in zip(rows["run"], rows["layer"], strict=True)} for rows in (ridges, frame))
    left = sorted({int(layer) for _, layer in every - drawn})
    return noted(stacked(charts), left_out(left))


def _ridges(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The outline of each layer's histogram: run, site, layer, length, top (how high it stands, in layers) and median."""
    import pandas as pd

    bins = frame.assign(at=[round(DOUBLING * log2(low) - 0.25) for low in frame["low"]])
    counts = bins.groupby(["run", "site", "layer", "at"], sort=False)["count"].sum().reset_index().sort_values("at")
    rows: list[dict[str, Any]] = []
    for run in runs_of(frame):
        of_run = counts[counts["run"] == run]
        every = -(-of_run["layer"].nunique() // LAYERS)
        for (site, layer), one in of_run[of_run["layer"] % every == 0].groupby(["site", "layer"]):
            told = {"run": run, "site": site, "layer": layer, "median": _median(one)}
            shares = dict(zip(one["at"].tolist(), (one["count"] / one["count"].max()).tolist(), strict=True))
            rows += [{**told, "length": _length(at), "high": REACH * every * share} for at, share in _outline(shares)]
    ridges = pd.DataFrame(rows).astype({"layer": int})
    return ridges.assign(top=(ridges["layer"] - ridges["high"]).round(3)).drop(columns="high")


def _median(bins: "pd.DataFrame") -> float:
    """The middle of the bin in which the median lies."""
    half = bins["count"].cumsum() >= bins["count"].sum() / 2
    return _length(float(bins["at"][half].iloc[0]) + 0.5)


def _outline(shares: Mapping[int, float]) -> Iterator[tuple[int, float]]:
    """Each bin's lower edge with its share of the peak; a bin that ends where none begins is closed at its upper edge."""
    seen = {at: share for at, share in shares.items() if share >= SEEN}
    for at, share in seen.items():
        yield at, share
        if at + 1 not in seen:
            yield at + 1, 0.0


def _length(at: float) -> float:
    return float(f"{2 ** (at / DOUBLING):.3g}")


@dataclass(frozen=True)
class Axis:
    """What all panels of a site share: how wide they are, from where to where they go, and the lengths that are written."""

    width: int
    ends: tuple[float, float]
    values: list[float]


def _axis(lengths: "pd.Series[float]", width: int) -> Axis:
    """At least two doublings, so that what is narrow looks narrow."""
    low, high = lengths.min() / 1.1, lengths.max() * 1.1
    more = max(1.0, 2 / (high / low) ** 0.5)
    low, high = low / more, high * more
    decades = range(floor(log10(low)), ceil(log10(high)))
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(values) <= width // 36:
            break
    return Axis(width, (low, high), values)


def _row(ridges: "pd.DataFrame", axes: Mapping[str, Axis]) -> Chart:
    """The panels of one run."""
    import altair as alt

    layers = sorted(ridges["layer"].unique().tolist())
    charts: list[Chart] = []
    for site in [site for site in axes if site in set(ridges["site"])]:
        panel = _panel(ridges[ridges["site"] == site].drop(columns="site"), axes[site], layers, "" if charts else "layer")
        charts.append(panel.properties(title=SITES[site]))
    return alt.hconcat(*charts, spacing=12)


def _panel(ridges: "pd.DataFrame", axis: Axis, layers: list[int], title: str) -> Chart:
    import altair as alt

    every = layers[-1] - layers[-2] if len(layers) > 1 else 1
    rows: dict[str, Any] = {"domain": [layers[0] - 1.05 * every, layers[-1] + 0.15 * every], "reverse": True, "nice": False}
    line = {"strokeWidth": 1, "color": PALETTE[0]}
    area = alt.Chart(ridges).mark_area(
        interpolate="step-after", color=PALETTE[0], opacity=0.5, line=line, aria=False, style="histogram"
    )
    return area.encode(
        alt.X("length:Q", title="length").scale(type="log", domain=axis.ends, nice=False)
        .axis(**ticks(axis.values), format="~g", grid=False, labelOverlap=False),
        alt.Y("top:Q", title=title or None).scale(**rows)
        .axis(**ticks(layers), format="d", labelOverlap=False, ticks=False, domain=False),
        alt.Y2("layer:Q"),
        alt.Detail("layer:O"),
        tooltip=["layer:O", alt.Tooltip("median:Q", format=".3g", title="median length")],
    ).properties(width=axis.width, height=max(90, min(30 * len(layers), 560)))  # fmt: skip
