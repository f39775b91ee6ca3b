"""Capacity: how many class directions fit."""

from conoscope.figures.base import Chart, Tables, figure, table_of


@figure("capacity", question="classes")
def capacity(tables: Tables) -> Chart:
    """Largest cosine between the directions of two classes, by the number of classes.

    Of the last layer. Dashed is the least that so many directions allow, dotted what random ones give: a line near the dashed
    one says that the classes are as far apart as they can be.
    """
    import altair as alt

    columns = ("classes", "value", "mean", "simplex", "random", "width", "layer")
    frame = table_of(tables, "capacity")
    frame = frame[(frame["site"] == "hidden") & (frame["layer"] == frame.groupby("run")["layer"].transform("max"))]
    base = alt.Chart(frame[["run", *columns]]).encode(
        alt.X("classes:Q", title="number of classes").scale(type="log"),
        alt.Color("run:N", title=None).legend(orient="bottom", direction="vertical", labelLimit=400),
    )
    lines = [
        base.mark_line(point=True).encode(
            alt.Y("value:Q", title="cosine").scale(domain=[-1, 1]),
            tooltip=["run", "classes", *(alt.Tooltip(name, format=".3f") for name in ("value", "mean", "simplex", "random"))],
        ),
        base.mark_line(strokeDash=[6, 4]).encode(alt.Y("simplex:Q")),
        base.mark_line(strokeDash=[1, 3]).encode(alt.Y("random:Q")),
    ]
    return alt.layer(*lines).properties(width=400, height=300)
