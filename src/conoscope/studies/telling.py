"""Text of a record, for the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from conoscope.studies.contrasts import words
from conoscope.studies.records import Record, what_of


def record_text(record: Record) -> str:
    """The record as text: where our setup differs, published figures beside ours, and the verdict on each claim."""
    return "\n".join(_lines(record))


def _lines(record: Record) -> Iterator[str]:
    yield f"{record['study']}: {record['title']}"
    yield f"{record['source']}\n"
    yield from (f"- {sentence}" for sentence in record["differs"])
    yield ""
    yield from aligned([HEAD, *(cells(row) for row in record["published"])] if record["published"] else [])
    yield from aligned([] if record["published"] else [MEANS_HEAD, *map(mean_cells, record["means"])])
    yield ""
    for claim in record["claims"]:
        yield f"{claim['name']}: {claim['statement']} {claim['answer'].capitalize()}."
        yield from (f"  {line}" for line in aligned([CASE_HEAD, *map(case_cells, claim["cases"])]))
    if record["quick"]:
        yield "\nThe quick form only tests the code: its numbers say nothing about the claims."


MEANS_HEAD = ("", "ours", "seeds")
HEAD = ("", "published", "ours", "holds?")
CASE_HEAD = ("", "mean", "95 % interval", "seeds", "holds?")


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of a published figure and ours: mean ± sd over seeds."""
    spread = f" ± {row['sd']:.3f}" if "sd" in row else ""
    return what_of(row), f"{row['published']:.3f} [{row['tag']}]", f"{row['ours']:.3f}{spread}", row["holds"]


def mean_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of one of our numbers, in a study without published ones: mean ± sd over seeds."""
    what = words({name: value for name, value in row.items() if name not in ("mean", "sd", "n", "values")})
    spread = f" ± {row['sd']:.3f}" if "sd" in row else ""
    return what, f"{row['mean']:.3f}{spread}", str(row["n"])


def case_cells(case: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of a claim in one case."""
    within = "" if case["low"] is None else f"{case['low']:+.3f} to {case['high']:+.3f}"
    return case["case"], f"{case['mean']:+.3f}", within, f"{case['above']} of {case['seeds']}", case["answer"]


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
