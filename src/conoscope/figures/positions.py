"""Positions: how alike the vectors of two places are; of no model, and so of no table."""

from conoscope.figures.base import Chart
from conoscope.figures.theme import SEQUENTIAL, themed


def positions(count: int = 100, width: int = 50) -> Chart:
    """The products pe_i · pe_j of sinusoidal positions: they depend on j - i alone, and are width / 2 on the diagonal."""
    import altair as alt
    import pandas as pd
    import torch

    from conoscope.models.layers import sinusoids

    table = sinusoids(count, width, like=torch.zeros(0, dtype=torch.float64))
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
