"""A chart as a file, as JSON and as SVG."""

from pathlib import Path
from typing import Any

from conoscope.errors import OutputError, one_of
from conoscope.figures.base import Chart
from conoscope.writing import atomic

FORMATS = (".svg", ".pdf", ".png", ".html", ".json")


def save(chart: Chart, path: str | Path) -> Path:
    """Write a chart in the form that the ending names; on white, as paper is, save for the spec."""
    import altair as alt

    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise OutputError(f"no figure can be written as {target.name!r}; give an ending of {one_of(FORMATS)}")
    try:
        on_white = chart if target.suffix.lower() == ".json" else chart.properties(background="white")
        with alt.data_transformers.disable_max_rows(), atomic(target) as beside:
            on_white.save(str(beside), **({"inline": True} if target.suffix.lower() == ".html" else {}))
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}; give -o another file") from error
    return target


def spec(chart: Chart) -> dict[str, Any]:
    """The chart as Vega-Lite, with its data."""
    import altair as alt

    with alt.data_transformers.disable_max_rows():
        found: dict[str, Any] = chart.to_dict()
    return found


def svg(chart: Chart) -> str:
    """The chart drawn, as one SVG element."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(spec(chart))
    return drawn
