"""Charts of the page: every figure that there is something to draw of, with its number, title and caption."""

import json
from dataclasses import dataclass

from conoscope.figures import FIGURES, QUESTIONS, Figure, Tables, spec, svg
from conoscope.figures.embedding import as_json, chart_box
from conoscope.markup import Html, sentence, tag


@dataclass(frozen=True)
class Drawn:
    """A figure of the page: its number, the drawing as SVG, and the chart as Vega-Lite in JSON, wide and, for some, narrow."""

    figure: Figure
    number: int
    svg: str
    spec: str
    narrow: str = ""

    @property
    def anchor(self) -> str:
        """Where it is on the page."""
        return f"figure-{self.figure.name}"

    @property
    def caption(self) -> str:
        """What is said of this chart: of its marks those that are drawn."""
        return self.figure.caption_of(json.loads(self.spec))


def drawn(tables: Tables) -> list[Drawn]:
    """Every figure that the tables can be drawn as, in the order of the questions."""
    order = list(QUESTIONS)
    fitting = sorted((f for f in FIGURES.values() if f.fits(tables)), key=lambda figure: order.index(figure.question))
    charts = [(figure, chart) for figure in fitting if (chart := figure.draw(tables)) is not None]
    return [
        Drawn(figure, number, svg(chart), as_json(spec(chart)), _narrow(figure, tables))
        for number, (figure, chart) in enumerate(charts, 1)
    ]


def _narrow(figure: Figure, tables: Tables) -> str:
    chart = figure.narrow(tables) if figure.narrow else None
    return "" if chart is None else as_json(spec(chart))


def figure_of(found: Drawn) -> Html:
    """The figure with its title and caption."""
    title, caption, name = found.figure.title, found.caption, found.anchor
    return tag(
        "figure",
        tag("p", f"Figure {found.number} · ", tag("code", found.figure.name), class_="number"),
        tag("h3", title),
        chart_box(name, f"{title}. {caption}", found.svg, found.spec, found.narrow),
        tag("figcaption", sentence(caption)),
        id=name,
    )
