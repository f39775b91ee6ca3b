"""Charts of the page: drawn already, and with what the script needs to bring them to life."""

import json
import re
from dataclasses import dataclass
from functools import cache

from conoscope.figures import FIGURES, QUESTIONS, Figure, Tables, spec, svg
from conoscope.reporting.markup import Html, joined, sentence, tag


@dataclass(frozen=True)
class Drawn:
    """A figure of the page: its number, the drawing as SVG, and the chart as Vega-Lite in JSON."""

    figure: Figure
    number: int
    svg: str
    spec: str

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
        Drawn(figure, number, slim(svg(chart), f"{figure.name}-"), json.dumps(spec(chart), separators=(",", ":")))
        for number, (figure, chart) in enumerate(charts, 1)
    ]


def figure_of(found: Drawn) -> Html:
    """The figure with its title and caption; a box of its own scrolls where it is wider than the page."""
    title, caption, name = found.figure.title, found.caption, found.anchor
    chart = tag("div", Html(found.svg), class_="chart", id=f"{name}-chart", role="img", aria_label=f"{title}. {caption}")
    return tag(
        "figure",
        tag("p", f"Figure {found.number} · ", tag("code", found.figure.name), class_="number"),
        tag("h3", title),
        tag("div", chart, class_="scroll", role="group", aria_label=title, tabindex="0"),
        tag("figcaption", sentence(caption)),
        tag("script", script_text(found.spec), type="application/json", data_chart=f"{name}-chart"),
        id=name,
    )


def script_text(code: str) -> Html:
    """JSON as the text of a script element: nothing in it can end the element."""
    return Html(code.replace("<", "\\u003c"))


@cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed of Altair's version, as one script."""
    import altair as alt
    import vl_convert

    known = vl_convert.get_vegalite_versions()
    wanted = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    code: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=wanted if wanted in known else known[-1])
    return code


ELEMENT = re.compile(r"<[^>]+>")
SPOKEN = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
UNSEEN = re.compile(r'<path class="foreground"[^>]* display="none"/>|<path class="background"(?:(?! fill=| stroke=)[^>])*/>')
FINE = re.compile(r"(\.\d\d)\d+")
NAMED = re.compile(r'( id="|url\(#|href="#)')


def slim(drawing: str, prefix: str) -> str:
    """The drawing without what is neither seen nor heard, its ids under a prefix of its own: the page has one name for each.

    Marks are not read out one by one, as the whole chart has a label; places are exact to a hundredth of a pixel.
    """

    def slimmed(element: re.Match[str]) -> str:
        return NAMED.sub(rf"\g<1>{prefix}", FINE.sub(r"\1", SPOKEN.sub("", element.group())))

    return ELEMENT.sub(slimmed, UNSEEN.sub("", drawing))


def scripts(*codes: str) -> Html:
    """Scripts that run."""
    assert not any("</script" in code or "<!--" in code for code in codes)
    return joined(tag("script", Html(code)) for code in codes)
