"""Text of a record, for the terminal; its cells are those of the page."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conoscope.studies.contrasts import words
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
    yield from aligned([HEAD, *(cells(row) for row in record["published"])] if record["published"] else [])
    yield from aligned([] if record["published"] else [("", "ours", unit(record)), *map(mean_cells, record["means"])])
    yield ""
    for claim in record["claims"]:
        yield f"{claim['name']}: {claim['statement']} {claim['answer'].capitalize()}{on_all(record, claim)}."
        yield from (f"  {line}" for line in aligned([case_head(record), *(case_cells(record, case) for case in claim["cases"])]))
    yield f"\n{gate_line(record)}"
    yield from left_lines(record)
    if record["quick"]:
        yield "\nThe quick form only tests the code: its numbers say nothing about the claims."


HEAD = ("", "published", "ours", "one run", "excluded?")


def unit(record: Record) -> str:
    """What the runs of a model are: seeds, or parts of the texts for a model that is used unchanged."""
    kinds = ["parts" if "parts" in run else "seeds" for run in record["runs"]]
    return " or ".join(sorted(set(kinds), reverse=True))


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Cells of a published figure and ours: mean ± sd, and half the width of the interval of a single run of ours."""
    spread = f" ± {row['sd']:.3f}" if "sd" in row else ""
    half = f"± {row['half']:.3f}" if "half" in row else ""
    return what_of(row), f"{row['published']:.3f} [{row['tag']}]", f"{row['ours']:.3f}{spread}", half, row["holds"]


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
        f"Claims are judged on runs whose accuracy is at least {record['gate']:g} above the share of the largest class, and "
        f"again on all. {sum(gated.values())} of {len(known)} runs are below{which}."
    )


def left_lines(record: Record) -> Iterator[str]:
    """Which runs of the study are left, and which claims have no case in the record."""
    if record["left"]:
        left = "; ".join(f"{words(one['keys'])} ({ranges(one['seeds'])})" for one in record["left"])
        yield f"{sum(len(one['seeds']) for one in record['left'])} runs are left: {left}."
    if lacking := [claim["name"] for claim in record["claims"] if not claim["cases"]]:
        yield f"Claims without a case in these runs: {', '.join(lacking)}."


def ranges(seeds: Sequence[int]) -> str:
    """Seeds in words: seeds 0 to 4, 7."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and parts[-1][-1] == seed - 1:
            parts[-1] = [parts[-1][0], seed]
        else:
            parts.append([seed])
    shown = ", ".join(" to ".join(map(str, part)) for part in parts)
    return f"seed{'s' if len(seeds) > 1 else ''} {shown}"


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
