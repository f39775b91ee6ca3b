"""Curves: a measure by layer."""

from conoscope.figures.base import Chart, Tables, figure, runs_of, table_of
from conoscope.figures.theme import WIDTH

NORMAL = 1.96
"""Standard errors on each side of a 95 % interval."""


@figure("sim", question="cones")
def sim(tables: Tables) -> Chart:
    """Mean cosine between the vectors of a sentence, by layer.

    Near 1 all vectors of a sentence point one way, in a narrow cone; near 0 they point anywhere. Layer 0 is the embedding.
    The band is the 95 % interval of the mean over sentences.
    """
    return curve(tables, "sim", "SIM", (-1, 1))


def curve(tables: Tables, name: str, title: str, within: tuple[float, float] | None = None) -> Chart:
    """A sketch, to be finished."""
    import altair as alt

    frame = table_of(tables, name)
    whole = frame[frame["head"].isna()]
    error = NORMAL * whole["sd"] / whole["n"].astype(float) ** 0.5
    whole = whole.assign(low=whole["value"] - error, high=whole["value"] + error)
    base = alt.Chart(whole[["run", "site", "layer", "value", "low", "high", "n"]]).encode(alt.X("layer:O"))
    lines = base.mark_line(point=True).encode(
        alt.Y("value:Q", title=title), alt.Color("site:N"), tooltip=["site", "layer", "value"]
    )
    bands = base.mark_area(opacity=0.2).encode(alt.Y("low:Q"), alt.Y2("high:Q"), alt.Color("site:N"))
    chart = alt.layer(bands, lines).properties(width=WIDTH)
    return chart if len(runs_of(frame)) == 1 else chart.facet("run:N", columns=2)
