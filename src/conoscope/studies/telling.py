"""Text of a record, for the terminal; its cells are those of the page."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from conoscope.studies.contrasts import ranges, words
from conoscope.studies.earlier import EARLIER, is_dated
from conoscope.studies.records import what_of
from conoscope.studies.rejudging import Record
from conoscope.studies.rows import STATISTICS, without


def record_text(record: Record) -> str:
    """The record as text: where our setup differs, published figures beside ours, and the verdict on each claim."""
    return "\n".join(_lines(record))


def _lines(record: Record) -> Iterator[str]:
    yield f"{record['study']}: {record['title']}"
    yield f"{record['source']}\n"
    yield from (f"- {sentence}" for sentence in record["differs"])
    yield ""
    yield from [f"{EARLIER}\n"] if is_dated(record) else []
    published = [figure_head(record), *(cells(record, row) for row in record["published"])]
    yield from aligned(published if record["published"] else [])
    yield from aligned([] if record["published"] else [("", "ours", unit(record)), *map(mean_cells, record["means"])])
    yield ""
    for claim in record["claims"]:
        yield f"{claim['name']}: {claim['statement']} {claim['answer'].capitalize()}{on_all(record, claim)}."
        yield from (f"  {line}" for line in aligned([case_head(record), *(case_cells(record, case) for case in claim["cases"])]))
    yield f"\n{gate_line(record)}"
    yield from ungated_lines(record)
    yield from mixed_lines(record)
    yield from left_lines(record)
    if record["quick"]:
        yield "\nThe quick form only tests the code: its numbers say nothing about the claims."


def unit(record: Record) -> str:
    """What the runs of a model are: seeds, or parts of the texts for a model that is used unchanged."""
    kinds = ["parts" if "parts" in run else "seeds" for run in record["runs"]]
    return " or ".join(sorted(set(kinds), reverse=True))


def figure_head(record: Record) -> tuple[str, ...]:
    """Headings of the cells of a published figure; the last three only if runs were gated."""
    gated = ("gated", "all runs", "all runs exclude?") if record["gate"] is not None else ()
    return "", "published", "ours", "one run", "excluded?", *gated


def cells(record: Record, row: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of a published figure and ours: mean ± sd, and half the width of the interval of a single run of ours; of the runs
    that pass the gate, how many do not, and of all runs."""
    half = f"± {row['half']:.3f}" if "half" in row else ""
    gated = (str(row["gated"]), _spread(row, "all_"), row["all_holds"]) if record["gate"] is not None else ()
    return what_of(row), f"{row['published']:.3f} [{row['tag']}]", _spread(row), half, row["holds"], *gated


def _spread(row: Mapping[str, Any], of: str = "") -> str:
    """Mean ± sd; nothing if no run passes the gate."""
    spread = f" ± {row[f'{of}sd']:.3f}" if f"{of}sd" in row else ""
    return f"{row[f'{of}ours']:.3f}{spread}" if f"{of}ours" in row else ""


def mean_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of one of our numbers, in a study without published ones: mean ± sd."""
    spread = f" ± {row['sd']:.3f}" if "sd" in row else ""
    return words(without(row, STATISTICS)), f"{row['mean']:.3f}{spread}", str(row["n"])


def case_head(record: Record) -> tuple[str, ...]:
    """Headings of the cells of a case; the last two only if runs were gated."""
    gated = ("gated", "all runs", "all runs hold?") if record["gate"] is not None else ()
    return "", "mean", "95 % interval", unit(record), "holds?", *gated


def case_cells(record: Record, case: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of a claim in one case: on the runs that pass the gate, how many do not, and on all runs."""
    within = "" if case["low"] is None else f"{case['low']:+.3f} to {case['high']:+.3f}"
    gated = (str(case["gated"]), _mean(case["all_mean"]), case["all_answer"]) if record["gate"] is not None else ()
    return case["case"], _mean(case["mean"]), within, f"{case['above']} of {case['seeds']}", case["answer"], *gated


def _mean(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def on_all(record: Record, claim: Mapping[str, Any]) -> str:
    """What all runs say, if that is something else."""
    return f"; on all runs: {claim['all_answer']}" if claim["all_answer"] != claim["answer"] else ""


def gate_line(record: Record) -> str:
    """Which runs claims are judged on, and how many are left out, in which conditions."""
    if record["gate"] is None:
        scored = any("majority" in run for run in record["runs"])
        why = "" if scored else ": these have no accuracy to compare with the share of the largest class"
        return f"Claims are judged on all runs{why}."
    known = [run for run in record["runs"] if "gated" in run]
    gated = Counter(words(run["keys"]) for run in known if run["gated"])
    which = f": {'; '.join(f'{keys} ({count})' for keys, count in gated.items())}" if gated else ""
    return (
        f"Claims and published figures are judged on runs whose accuracy is at least {record['gate']:g} above the share of the "
        f"largest class, and again on all. {sum(gated.values())} of {len(known)} runs are below{which}."
    )


def ungated_lines(record: Record) -> Iterator[str]:
    """In which conditions no run can be left out, if in others it can."""
    unknown = [run for run in record["runs"] if record["gate"] is not None and "gated" not in run]
    if which := dict.fromkeys(words(run["keys"]) for run in unknown):
        why = "since their record lacks the share of the largest class"
        yield f"{len(unknown)} runs are judged without it, {why}: {'; '.join(which)}."


def mixed_lines(record: Record) -> Iterator[str]:
    """Which conditions have runs of different data."""
    yield from (f"Not of the same data: {line}." for line in record["mixed"])


def left_lines(record: Record) -> Iterator[str]:
    """Which runs of the study are left, and which claims have no case in the record."""
    if record["left"]:
        left = "; ".join(f"{words(one['keys'])} ({ranges(one['seeds'])})" for one in record["left"])
        yield f"{sum(len(one['seeds']) for one in record['left'])} runs are left: {left}."
    if lacking := [claim["name"] for claim in record["claims"] if not claim["cases"]]:
        yield f"Claims without a case in these runs: {', '.join(lacking)}."


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
