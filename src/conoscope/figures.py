"""Figures: a table in, an Altair chart out, one function a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.errors import OutputError, one_of

if TYPE_CHECKING:
    import altair as alt

FORMATS = (".svg", ".pdf", ".png", ".html", ".json")


def positions(count: int = 100, width: int = 50) -> "alt.Chart":
    """The products pe_i · pe_j of sinusoidal positions: they depend on j - i alone, and are width / 2 on the diagonal."""
    import altair as alt
    import pandas as pd
    import torch

    from conoscope.layers import sinusoids

    table = sinusoids(count, width, like=torch.zeros(0, dtype=torch.float64))
    products = (table @ table.T).tolist()
    frame = pd.DataFrame([{"i": i, "j": j, "product": value} for i, row in enumerate(products) for j, value in enumerate(row)])
    chart: alt.Chart = (
        alt.Chart(frame, title=f"Products of sinusoidal positions, width {width}")
        .mark_rect()
        .encode(
            alt.X("j:O", title="position j").axis(values=list(range(0, count, max(1, count // 10))), labelAngle=0),
            alt.Y("i:O", title="position i").axis(values=list(range(0, count, max(1, count // 10)))),
            alt.Color("product:Q", title="pe_i · pe_j").scale(scheme="viridis"),
            tooltip=["i", "j", alt.Tooltip("product", format=".3f")],
        )
        .properties(width=400, height=400)
    )
    return chart


def capacity(folders: Sequence[str | Path]) -> Any:
    """Cosines between class directions of the last layer against the number of classes, with what could be.

    One line for each measured folder; dashed the least that so many directions allow, dotted what random ones give.
    """
    import altair as alt
    import pandas as pd

    from conoscope.result import Result

    if not folders:
        raise OutputError("a figure of capacity needs a measured folder; give one written by conoscope measure -m capacity -o")
    frames = []
    for folder in folders:
        result = Result.load(folder)
        frame = result["capacity"]
        last = frame[(frame["site"] == "hidden") & (frame["layer"] == frame["layer"].max())]
        name = f"{folder}: {result.provenance['corpus']['name']}, width {int(last['width'].iloc[0])}"
        frames.append(last.assign(what=name))
    table = pd.concat(frames)
    base = alt.Chart(table, title="Largest cosine between the directions of two classes").encode(
        alt.X("classes:Q", title="number of classes").scale(type="log"),
        alt.Color("what:N", title=None).legend(orient="bottom", direction="vertical", labelLimit=400),
    )
    lines = [
        base.mark_line(point=True).encode(
            alt.Y("value:Q", title="cosine").scale(domain=[-1, 1]),
            tooltip=[
                "what",
                "classes",
                *(alt.Tooltip(column, format=".3f") for column in ("value", "mean", "simplex", "random")),
            ],
        ),
        base.mark_line(strokeDash=[6, 4]).encode(alt.Y("simplex:Q")),
        base.mark_line(strokeDash=[1, 3]).encode(alt.Y("random:Q")),
    ]
    return alt.layer(*lines).properties(width=400, height=300)


def save(chart: Any, path: str | Path) -> Path:
    """Write a chart in the form that the ending names."""
    import altair as alt

    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise OutputError(f"no figure can be written as {target.name!r}; give an ending of {one_of(FORMATS)}")
    try:
        with alt.data_transformers.disable_max_rows():
            chart.save(str(target), **({"inline": True} if target.suffix.lower() == ".html" else {}))
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}; give -o another file") from error
    return target
