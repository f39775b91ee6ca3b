"""Pages: a record as a Markdown page, with its figures beside it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from conoscope.common.errors import OutputError
from conoscope.common.textfiles import readable
from conoscope.common.writing import write_text
from conoscope.figures import FIGURES, save
from conoscope.studies import STUDIES
from conoscope.studies.base import TAGS
from conoscope.studies.earlier import EARLIER, is_dated
from conoscope.studies.records import tables_of
from conoscope.studies.rejudging import Record
from conoscope.studies.summaries import HEAD as CONTROLS
from conoscope.studies.summaries import controls
from conoscope.studies.telling import (
    case_cells,
    case_head,
    cells,
    figure_head,
    gate_line,
    left_lines,
    mean_cells,
    mixed_lines,
    on_all,
    ungated_lines,
    unit,
)  # fmt: skip

DRAWN = {
    "narrow-cones": "How narrow the cones of models are, and how often they are right",
    "claims": "The claims, case by case",
    "published-and-ours": "Published figures, and ours beside them",
    "heads-as-gates": "The maps of the heads most like each gate",
    "lengths-in-a-head": "How long the queries, keys and values of one head are",
}
"""The figures of a page."""
PER_CLASS = {"found": "found", "f1": "F1", "specificity": "specificity"}
"""Quantities shown for single classes, with their headings."""


def write_page(record: Record, path: str | Path) -> Path:
    """Write the page, and its figures as SVG beside it."""
    target = Path(path)
    tables = tables_of(record)
    drawn = {name: FIGURES[name].draw(tables) for name in DRAWN if FIGURES[name].fits(tables)}
    charts = {name: chart for name, chart in drawn.items() if chart is not None}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for name, chart in charts.items():
            save(chart, target.with_name(f"{target.stem}-{name}.svg"))
        write_text(target, page_of(record, charts, target.stem))
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}; give --page another file") from error
    return target


def page_of(record: Record, figures: Iterable[str], stem: str) -> str:
    """The page as text: a pure function of the record, and of the study's conditions and `meaning`."""
    return "\n".join((*_verdict(record, list(figures), stem), *_published(record), *_more(record), *_making(record), ""))


def _verdict(record: Record, figures: list[str], stem: str) -> Iterator[str]:
    meaning = EARLIER if is_dated(record) else study.meaning if (study := STUDIES.get(record["study"])) else ""
    yield from (f"# {record['study']}", "", f"{record['title']}. {record['source']}.", "")
    yield from [meaning, ""] if meaning else []
    answers = ((c["name"], c["statement"], f"{c['answer']}{on_all(record, c)}") for c in record["claims"])
    yield from _table(("claim", "statement", "holds?"), list(answers))
    yield from (gate_line(record), "")
    for line in (*ungated_lines(record), *mixed_lines(record), *left_lines(record)):
        yield from (line, "")
    if "parts" in unit(record):
        yield "Models that are used unchanged have parts of the texts in place of seeds: their intervals are of the texts alone."
        yield ""
    for name in figures:
        yield from (f"![{DRAWN[name]}]({quote(readable(stem))}-{name}.svg)", "")
    for claim in record["claims"]:
        yield from (f"**{claim['name']}.** {claim['statement']} Above {claim['bound']:g}:", "")
        yield from _table(("case", *case_head(record)[1:]), [case_cells(record, case) for case in claim["cases"]])


def _published(record: Record) -> Iterator[str]:
    if record["published"]:
        yield from ("## Published and ours", "")
        yield from _table(("figure", *figure_head(record)[1:]), [cells(record, row) for row in record["published"]])
        tags = sorted({row["tag"] for row in record["published"]})
        known = "; ".join(f"[{tag}] {TAGS[tag]}" for tag in tags)
        yield f"Ours is mean ± standard deviation over {unit(record)}. A published figure, mostly a single run, is excluded where"
        yield "it lies outside the range of 95 of 100 single runs of ours. Half the width of that range is beside it: the wider"
        yield f'it is, the less "not excluded" says. {known}.'
        if record["gate"] is not None:
            yield "Ours is of the runs that pass the gate; figures with less than three of these are not judged. What all runs"
            yield "say stands in the last columns. Figures of accuracy, by which runs are gated, are compared with all runs."
        yield ""
    else:
        yield from (f"## Means over {unit(record)}", "")
        yield from _table(("", "ours", unit(record)), [mean_cells(row) for row in record["means"]])
    yield from ("## Where ours differs", "", *(f"- {sentence}" for sentence in record["differs"]), "")


def _more(record: Record) -> Iterator[str]:
    """What some studies have: SIM beside its controls, scores of single classes."""
    yield from _controls(record)
    yield from _classes(record)


def _controls(record: Record) -> Iterator[str]:
    if rows := controls(record):
        yield from ("## SIM beside its controls", "", f"Means over {unit(record)}, layer by layer from the first on.", "")
        yield from _table(CONTROLS, rows)


def _classes(record: Record) -> Iterator[str]:
    """Scores of single classes, if the study has them."""
    scores = [row for row in record["means"] if row["quantity"] in PER_CLASS and "class" in row]
    for model in dict.fromkeys(row.get("model", "") for row in scores):
        here = {(row["class"], row["quantity"]): row["mean"] for row in scores if row.get("model", "") == model}
        yield from (f"## Classes{f': {model}' if model else ''}", "", f"Means over {unit(record)}.", "")
        classes = dict.fromkeys(name for name, _ in here)
        yield from _table(
            ("class", *PER_CLASS.values()),
            [(name, *(_number(here.get((name, quantity))) for quantity in PER_CLASS)) for name in classes],
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _making(record: Record) -> Iterator[str]:
    yield from ("## How it was made", "", "```console", f"$ {record['command']}", "```", "")
    seconds = [run["seconds"] for run in record["runs"]]
    slowest = f"the longest of {max(seconds):.0f} s" if seconds else ""
    yield f"{len(seconds)} runs with {len(record['seeds'])} {unit(record)} on {', '.join(record['devices'])}, {slowest}, in"
    yield f"{record['seconds']:.0f} s side by side; commit {record['commit'] or 'unknown'}."
    yield f"Versions: {', '.join(f'{name} {version}' for name, version in record['versions'].items())}."
    yield from (f"Failed: {failure}" for failure in record["failed"])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
