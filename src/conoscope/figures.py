"""Figures: a table in, an Altair chart out, one function a figure."""

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


FIGURES = {"positions": positions}
