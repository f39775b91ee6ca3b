"""A chart in a page: drawn already, and as data that the page's own script brings to life. No other way leads into a page.

Data reach a page as text or as JSON of which nothing can end its element; the policy of the page names the scripts that may run
by their hashes, so that a script that came with a label would not run even if it got there.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from conoscope.common.markup import Html, joined, sentence, tag
from conoscope.common.terminal import printable


def chart_box(anchor: str, told: str, drawing: str, chart: str, narrow: str = "") -> Html:
    """The drawing in a box that scrolls where it is too wide, and the chart as JSON for the script.

    `anchor` is the id of the chart on its page, `told` what is read out of it, `narrow` the chart of a figure that has another
    one for narrow pages.
    """
    inside = tag("div", Html(slim(drawing, f"{anchor}-")), class_="chart", id=f"{anchor}-chart", role="img", aria_label=told)
    specs = {"data_chart": chart, "data_narrow": narrow}
    return joined(
        (
            tag("div", inside, class_="scroll", role="group", aria_label=told.split(". ")[0], tabindex="0"),
            *(
                tag("script", script_text(code), type="application/json", **{name: f"{anchor}-chart"})
                for name, code in specs.items()
                if code
            ),
        )
    )


def chart_page(title: str, caption: str, drawing: str, chart: str, narrow: str = "") -> str:
    """A page of one chart with its title and caption; it needs no other file and asks nothing of the network."""
    anchor = "figure"
    inside = (
        tag("h1", title) if title else Html(),
        chart_box(anchor, f"{title or 'chart'}. {caption}", drawing, chart, narrow),
        tag("figcaption", sentence(caption)) if caption else Html(),
    )
    main = tag("main", tag("figure", *inside, id=anchor), class_="alone")
    return document(title or "chart", [style()], [bundle(), script()], main)


def document(title: str, styles: Sequence[str], codes: Sequence[str], body: Html) -> str:
    """A whole page, whose policy allows its own scripts, its own styles and images that are in it, and nothing else."""
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, codes))}",
            "style-src 'unsafe-inline'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = tag(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<link rel="icon" href="data:,">'),
        tag("title", printable(title)),
        tag("style", Html("\n".join(styles))),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', body, _running(codes)), lang='en')}\n"


def _hash(code: str) -> str:
    """A script that may run, by its own text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def _running(codes: Sequence[str]) -> Html:
    assert not any("</script" in code or "<!--" in code for code in codes)
    return joined(tag("script", Html(code)) for code in codes)


def as_json(data: Any, indent: int | None = None) -> str:
    """JSON of which nothing can end the element of a page that it is put into."""
    return script_text(json.dumps(data, indent=indent, separators=None if indent else (",", ":")))


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


def script() -> str:
    """The script that brings charts to life, and makes them again for narrow pages."""
    return _file("chart.js")


def style() -> str:
    """The style of charts, in the light and in the dark."""
    return _file("chart.css")


def _file(name: str) -> str:
    return (files("conoscope.figures") / name).read_text(encoding="utf-8")


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
