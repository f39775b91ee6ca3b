"""The report: what was measured, every figure, every table, and how they were made, as one page that needs nothing else.

>>> from conoscope.reporting import report
>>> report(["out/pure", "out/tuned"], "report.html")
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from conoscope.common.errors import OutputError, one_of
from conoscope.common.writing import write_text
from conoscope.reporting.differing import differing
from conoscope.reporting.findings import find
from conoscope.reporting.gathering import JoinedTables, Source, gather
from conoscope.reporting.page import page as written
from conoscope.results.shown import Shown

__all__ = ["report"]

ENDINGS = (".html", ".htm")


def report(
    sources: Source | Sequence[Source] | Mapping[str, Source], path: str | Path, title: str | None = None, progress: bool = False
) -> Path:
    """Write the page of one source or of several: results, folders that commands wrote, files of explanations."""
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise OutputError(f"no report can be written as {target.name!r}; give an ending of {one_of(ENDINGS)}")
    runs = gather([sources] if isinstance(sources, Shown | str | Path) else sources)
    if not runs:
        raise OutputError("a report needs something to report on; give a folder written by conoscope measure -o")
    tables = JoinedTables(runs)
    return _write(written(runs, tables, find(tables), title, progress, differing(runs)), target)


def _write(text: str, target: Path) -> Path:
    try:
        write_text(target, text)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}; give -o another file") from error
    return target
