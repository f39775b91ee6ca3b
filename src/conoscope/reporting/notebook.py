"""Showing: a result as a piece of HTML, for notebooks; a report says more."""

import base64
from collections.abc import Mapping
from html import escape
from typing import Any

from conoscope.common.terminal import printable
from conoscope.figures import FIGURES, Tables, spec, svg_of
from conoscope.reporting.facts import run_facts, screen_facts
from conoscope.reporting.findings import find
from conoscope.results.store import measured

SHOWN = ("sim", "entropy", "class-cones")
"""The figures that a notebook shows, where there is something to draw."""


def shown(tables: Tables, provenance: Mapping[str, Any]) -> str:
    """What was measured, what is worth knowing of it, some figures, and the names of the tables."""
    import pandas as pd

    runs = pd.DataFrame([{**run_facts(provenance), "run": ""}])
    findings = "".join(f"<li>{_text(found.text)}</li>" for found in find({**tables, "runs": runs}))
    facts = "; ".join(f"{name}: {fact}" for name, fact in screen_facts(provenance, tables).items() if fact)
    names = ", ".join(f"<code>{_text(name)}</code>" for name in tables)
    return "".join(
        (
            f"<p><b>{_text(measured(provenance))}</b></p>",
            f"<p>{_text(facts)}</p>" if facts else "",
            f"<ul>{findings}</ul>" if findings else "",
            *(_drawn(name, tables) for name in SHOWN if name in FIGURES and FIGURES[name].fits(tables)),
            f"<p>Tables: {names}</p>" if names else "<p>No tables: nothing was counted.</p>",
        )
    )


def _drawn(name: str, tables: Tables) -> str:
    figure = FIGURES[name]
    chart = figure.draw(tables)
    if chart is None:
        return ""
    written = spec(chart)
    caption = figure.caption_of(written)
    # As an image: the ids and styles of one drawing cannot meet those of another, nor a dark page its dark letters.
    source = base64.b64encode(svg_of(written).encode()).decode()
    return (
        f'<figure><figcaption>{_text(figure.title)}</figcaption><img alt="{_text(figure.title)}. {_text(caption)}" '
        f'style="background: white; max-width: 100%" src="data:image/svg+xml;base64,{source}"></figure>'
    )


def _text(text: str) -> str:
    return escape(printable(text))
