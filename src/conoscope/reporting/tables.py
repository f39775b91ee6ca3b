"""Tables of the page: a sight of each, and the whole of it as CSV where that is not too much."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from conoscope.common.markup import Html, joined, quoted, sentence, tag
from conoscope.common.questions import EXPLORED
from conoscope.figures import Tables
from conoscope.reporting.gathering import Run
from conoscope.reporting.sorting import SHOWN, held_rows
from conoscope.results.store import TableInfo, stem_of

if TYPE_CHECKING:
    import pandas as pd

LARGEST, ALTOGETHER = 150_000, 1_200_000
"""How many bytes of CSV the page holds of one table, and of all of them."""
SAFE = ",;:@/?!$*+=()~[]{}|"
"""What a data URL may hold as it is."""
FORMULA = re.compile(r"[=+\-@\t\r\n]")
"""How a cell begins that a spreadsheet would compute (OWASP, CSV injection)."""


@dataclass(frozen=True)
class Sheet:
    """A table of the page: its name, its rows of every run, its CSV where the page holds it, the files that hold it, and what
    it holds."""

    name: str
    frame: "pd.DataFrame"
    csv: str | None
    files: Sequence[str]
    info: TableInfo


def sheets(tables: Tables, runs: Sequence[Run]) -> list[Sheet]:
    """Every table but that of the runs and those of the explorer; the smallest ones come with their CSV, as many as the page can
    hold."""
    several = len({run.name for run in runs}) > 1
    about = {name: info for run in runs for name, info in run.index.items()}
    shown = [name for name in tables if name != "runs" and (name not in about or about[name].question != EXPLORED)]
    frames = {name: _with_runs(tables[name], several) for name in shown}
    # A cell and its comma are two bytes at least.
    written = {name: data_url(frame) for name, frame in frames.items() if 2 * frame.size <= LARGEST}
    held: dict[str, str] = {}
    for name in sorted(written, key=lambda name: len(written[name])):
        if len(written[name]) <= min(LARGEST, ALTOGETHER - sum(map(len, held.values()))):
            held[name] = written[name]
    return [
        Sheet(name, frame, held.get(name), _files(name, runs), about.get(name, TableInfo())) for name, frame in frames.items()
    ]


def _files(name: str, runs: Sequence[Run]) -> list[str]:
    """The files that hold a table: of explanations the file itself, else the CSV in a run's folder."""
    there = [run.source for run in runs if run.source and name in run.tables]
    return there if name == "explanations" else [str(Path(source) / f"{stem_of(name)}.csv") for source in there]


def _with_runs(frame: "pd.DataFrame", several: bool) -> "pd.DataFrame":
    """With the column that names the run first, where there are several; else without it."""
    rest = frame.drop(columns="run", errors="ignore")
    return rest.assign(run=frame["run"])[["run", *rest.columns]] if several else rest


def data_url(frame: "pd.DataFrame") -> str:
    """The whole table as CSV, all digits and no formulas, as an address that is its own content."""
    texts = {name: column.map(_no_formula) for name, column in frame.items() if column.dtype.kind not in "iufb"}
    written = frame.assign(**{str(name): column for name, column in texts.items()}).to_csv(index=False, lineterminator="\n")
    return f"data:text/csv;charset=utf-8,{quote(written, safe=SAFE, errors='backslashreplace')}"


def _no_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def table_of(sheet: Sheet) -> Html:
    """The table, closed at first, under a line that says what it holds."""
    rows = len(sheet.frame)
    count = f"{rows:,} {'row' if rows == 1 else 'rows'}"
    what = sentence(sheet.info.summary)
    label = tag("summary", tag("code", sheet.name), " ", what, " ", tag("span", count, class_="muted"))
    table, held = _table(sheet)
    box = tag("div", table, class_="scroll", role="region", aria_label=f"table {sheet.name}", tabindex="0")
    return tag("details", label, box, held, tag("p", *_download(sheet), class_="download"), id=f"table-{stem_of(sheet.name)}")


def _table(sheet: Sheet) -> tuple[Html, Html]:
    """The table with its first rows, and what its script sorts where those are not all."""
    shown, cut = first_rows(sheet.frame)
    filled = [name for name, column in sheet.frame.items() if name != "measure" and column.notna().any()]
    places = {str(name): decimals_of(sheet.frame[name]) for name in filled if _is_number(sheet.frame[name])}
    columns = {str(name): cells(shown[name], places.get(str(name))) for name in filled}
    heads = (tag("th", name, scope="col", class_="number" if name in places else "text") for name in columns)
    table = tag(
        "table",
        tag("caption", sheet.name, f", {cut}; sorting sorts all of them" if cut else "", class_="told" if cut else "unseen"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *(tag("tr", *line) for line in zip(*columns.values(), strict=True))),
        class_="sortable",
    )
    if not cut:
        return table, Html()
    rows = held_rows({str(name): sheet.frame[name] for name in filled}, places)
    told = f"{sheet.name}, the first {SHOWN} of {len(sheet.frame):,} rows"
    return table, tag("script", rows, type="text/plain", data_rows="", data_told=told)


def first_rows(frame: "pd.DataFrame") -> tuple["pd.DataFrame", str]:
    """The rows that the page shows, as many of each run, and what is said of it where those are not all."""
    if len(frame) <= SHOWN:
        return frame, ""
    runs = frame["run"].nunique() if "run" in frame else 1
    each = max(1, SHOWN // runs)
    shown = frame.groupby("run", sort=False).head(each) if runs > 1 else frame.head(SHOWN)
    which = (
        f"the first {each} rows of each run, of {len(frame):,} in all" if runs > 1 else f"the first {each} of {len(frame):,} rows"
    )
    return shown, which


def _is_number(column: "pd.Series[Any]") -> bool:
    return column.dtype.kind in "iuf"


def cells(column: "pd.Series[Any]", places: int | None) -> list[Html]:
    """The cells of a column: numbers with so many decimals, texts where there are no `places`, nothing where nothing is."""
    import pandas as pd

    known = zip(column, (not missing for missing in pd.isna(column)), strict=True)
    if places is None:
        return [tag("td", quoted(cell) if there else "", class_="text") for cell, there in known]
    return [tag("td", number(float(cell), places) if there else "") for cell, there in known]


def decimals_of(column: "pd.Series[Any]") -> int:
    """How many decimals the numbers of a column are shown with."""
    return decimals(column.dropna().astype(float).abs().tolist(), column.dtype.kind)


def decimals(sizes: Sequence[float], kind: str) -> int:
    """How many decimals numbers of such sizes are shown with: none where they are whole, fewer where they are large."""
    if kind in "iu" or all(size == int(size) for size in sizes if size < float("inf")):
        return 0
    largest = max(size for size in sizes if size < float("inf"))
    return next((places for bound, places in ((1000, 1), (100, 2), (2, 3)) if largest >= bound), 4)


def number(value: float, places: int) -> str:
    """A number in so many decimals; one that would vanish in them is told by its power of ten."""
    shown = f"{value:.{places}f}".replace("inf", "Infinity")
    return f"{value:.0e}" if value and not shown.strip("-0.") else shown


def _download(sheet: Sheet) -> Sequence[str]:
    file = f"{stem_of(sheet.name)}.csv"
    if sheet.csv is not None:
        return [
            tag("a", f"Download {file}", download=file, href=sheet.csv),
            " (all rows, all columns, all digits; texts that begin as formulas do have a ' before them)",
        ]
    if not sheet.files:
        return ["This table is too large for the page; save the result to have it as a file."]
    named = [joined((", " if place else "", tag("code", quoted(path, 200)))) for place, path in enumerate(sheet.files)]
    return ["This table is too large for the page; the whole of it is in ", *named, "."]


def by_question(found: Sequence[Sheet]) -> dict[str, list[Sheet]]:
    """The tables of each question, in their order there; those of none under nothing."""
    grouped: dict[str, list[Sheet]] = {}
    for sheet in sorted(found, key=lambda sheet: (sheet.info.question, sheet.info.place)):
        grouped.setdefault(sheet.info.question, []).append(sheet)
    return grouped
