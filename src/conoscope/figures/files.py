"""A chart as a file, as JSON and as SVG."""

from pathlib import Path
from typing import Any

from conoscope.errors import OutputError, one_of
from conoscope.figures.base import Chart, figure_in
from conoscope.figures.embedding import as_json, chart_page
from conoscope.writing import atomic, write_text

FORMATS = (".svg", ".pdf", ".png", ".html", ".json")


def save(chart: Chart, path: str | Path, narrow: Chart | None = None) -> Path:
    """Write a chart in the form that the ending names; pictures on white, as paper is. `narrow`: the same figure drawn for narrow
    pages, where it has such a drawing."""
    import altair as alt

    target = Path(path)
    ending = target.suffix.lower()
    if ending not in FORMATS:
        raise OutputError(f"no figure can be written as {target.name!r}; give an ending of {one_of(FORMATS)}")
    try:
        if ending in (".html", ".json"):
            write_text(target, as_json(spec(chart), 2) if ending == ".json" else page(chart, narrow))
        else:
            with alt.data_transformers.disable_max_rows(), atomic(target) as beside:
                chart.properties(background="white").save(str(beside))
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


def page(chart: Chart, narrow: Chart | None = None) -> str:
    """The chart as a page of its own, with the title of its figure and what is true of this chart as caption."""
    written = spec(chart)
    figure = figure_in(written)
    title, caption = (figure.title, figure.caption_of(written)) if figure else ("", "")
    return chart_page(title, caption, svg(chart), as_json(written), "" if narrow is None else as_json(spec(narrow)))
