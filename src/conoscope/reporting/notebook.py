"""What a result shows of itself: HTML for notebooks, its findings, one figure, its report."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import MeasureError, one_of
from conoscope.common.markup import cut
from conoscope.common.terminal import printable
from conoscope.figures import FIGURES, Tables, spec, svg_of
from conoscope.figures.base import Chart
from conoscope.reporting.facts import run_facts, screen_facts
from conoscope.reporting.findings import find
from conoscope.reporting.gathering import JoinedTables, Source, figure_of, gather
from conoscope.results.store import measured

if TYPE_CHECKING:
    from conoscope.results.differences import Differences

SHOWN_TABLES, SHOWN_ROWS = 4, 6
"""How many tables of differences a notebook shows, and how many rows of each."""
SHOWN = ("sim", "entropy", "class-cones")
"""The figures that a notebook shows, where there is something to draw."""


def shown(tables: Tables, provenance: Mapping[str, Any]) -> str:
    """What was measured, what is worth knowing of it, some figures, and the names of the tables."""
    findings = "".join(f"<li>{_text(text)}</li>" for text in findings_of(tables, provenance))
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


def findings_of(tables: Tables, provenance: Mapping[str, Any]) -> list[str]:
    """The sentences that say what is worth knowing."""
    import pandas as pd

    runs = pd.DataFrame([{**run_facts(provenance), "run": ""}])
    return [found.text for found in find({**tables, "runs": runs})]


def chart_of(name: str | None, sources: Sequence[Source] | Mapping[str, Source]) -> Chart:
    """A figure of some results, by its name or by that of the first table that it draws."""
    if name is None:
        tables = JoinedTables(gather(sources))
        there = [figure.name for figure in FIGURES.values() if figure.fits(tables)]
        raise MeasureError(f"plot needs the name of a figure, as in plot({(there or ['sim'])[0]!r}); there is {one_of(there)}")
    called = name.replace("_", "-")
    by_table = {need: figure.name for figure in reversed(FIGURES.values()) for need in reversed(figure.needs)}
    return figure_of(called if called in FIGURES else by_table.get(name, name), sources)


def write_report(sources: Sequence[Source] | Mapping[str, Source], path: str | Path, title: str | None = None) -> Path:
    """Write the page of some results."""
    from conoscope.reporting import report  # the package imports this module's neighbours first

    return report(sources, path, title)


def shown_differences(differences: "Differences") -> str:
    """Both runs, and the first rows of each table of differences, the most certain first."""
    parts = [f"<p><b>{_text(repr(differences))}</b></p>"]
    for name in list(differences)[:SHOWN_TABLES]:
        frame = differences[name].dropna(subset="difference")
        ordered = frame.loc[frame["difference"].abs().sort_values(ascending=False, kind="stable").index].head(SHOWN_ROWS)
        cells = [[_cell(value) for value in row] for row in ordered.itertuples(index=False)]
        head = "".join(f"<th>{_text(str(column))}</th>" for column in ordered.columns)
        body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in cells)
        more = f", the {len(ordered)} largest of {len(frame)} differences" if len(frame) > len(ordered) else ""
        parts.append(f"<p><code>{_text(name)}</code>{more}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    rest = list(differences)[SHOWN_TABLES:]
    parts.append(f"<p>More tables: {', '.join(f'<code>{_text(name)}</code>' for name in rest)}</p>" if rest else "")
    return "".join(parts)


def _cell(value: Any) -> str:
    import pandas as pd

    if pd.isna(value):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else cut(str(value))


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
