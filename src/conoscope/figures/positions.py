"""Positions: how alike the vectors of two places are; of no model, and so of no table."""

from typing import TYPE_CHECKING

from conoscope.figures.base import Chart
from conoscope.figures.theme import SEQUENTIAL, themed

if TYPE_CHECKING:
    import numpy as np


def sinusoids(count: int, width: int) -> "np.ndarray":
    """The table (count, width) of sinusoidal positions, as `models.layers` has it for tensors."""
    import numpy as np

    angles = np.arange(count)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    table: np.ndarray = np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(count, -1)[:, :width]
    return table


def positions(count: int = 100, width: int = 50) -> Chart:
    """The products pe_i · pe_j of sinusoidal positions: they depend on j - i alone, and are width / 2 on the diagonal."""
    import altair as alt
    import pandas as pd

    table = sinusoids(count, width)
    products = (table @ table.T).tolist()
    frame = pd.DataFrame([{"i": i, "j": j, "product": value} for i, row in enumerate(products) for j, value in enumerate(row)])
    ticks = list(range(0, count, max(1, count // 10)))
    chart = (
        alt.Chart(frame, title=f"Products of sinusoidal positions, width {width}")
        .mark_rect()
        .encode(
            alt.X("j:O", title="position j").axis(values=ticks, labelAngle=0),
            alt.Y("i:O", title="position i").axis(values=ticks),
            alt.Color("product:Q", title="pe_i · pe_j").scale(scheme=SEQUENTIAL),
            tooltip=["i", "j", alt.Tooltip("product", format=".3f")],
        )
        .properties(width=400, height=400)
    )
    return themed(chart)
