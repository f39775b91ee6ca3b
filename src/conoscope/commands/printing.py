"""Output that several commands print: results, evaluations and notes, as text or as JSON."""

import math
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.terminal import answer, complain, say

if TYPE_CHECKING:
    from conoscope.causes.effects import Effects
    from conoscope.explaining.evaluation import Evaluation
    from conoscope.results.result import Result


def plain(value: Any) -> Any:
    """A value as JSON has it: tables as lists of rows, what is not a number as null, paths as text."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(inner) for inner in value]
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return None if value != value or str(value) == "<NA>" else str(value)


def print_notes(notes: Iterable[str]) -> None:
    """Print each distinct note on one line of standard error."""
    for note in dict.fromkeys(notes):
        complain(note)


def print_result(result: "Result", out: str | Path, args: Namespace) -> None:
    """Print what the result tells, or all its tables, its notes, and where it was written."""
    from conoscope.reporting.highlights import highlights

    notes = list(_notes(result))
    seen = result.provenance["seen"]
    found = highlights(result.tables, result.provenance)
    if args.json:
        tables = {"tables": result.tables} if args.tables else {}
        answer(plain({**found.record(), "examples": seen["examples"], "folder": out, "notes": notes, **tables}))
        return
    say(result.summary() if args.tables else found)
    print_notes(notes)
    say(f"\n{seen['examples']} examples; tables, provenance and sums written to {out}")
    if not args.tables and result.tables:
        say(f"all tables: the same command with --tables; figures: conoscope report {out}")


def _notes(result: "Result") -> Iterable[str]:
    provenance = result.provenance
    yield from provenance.get("notes", ())
    for gap in provenance.get("gaps", ()):
        yield f"{gap}; the tables lack it"
    if note := provenance.get("pool", {}).get("note"):
        yield note
    if not result.tables:
        yield "nothing to measure in this shard; its sums are kept for conoscope merge"
    seen = provenance["seen"]
    if seen["truncated"]:
        yield f"{seen['truncated']} of {seen['examples']} texts were cut off at the longest input"


def print_evaluation(evaluation: "Evaluation", args: Namespace) -> None:
    """Print the evaluation of maps, its notes, and where it was written."""
    seen = evaluation.provenance["seen"]["examples"]
    if args.json:
        found = {"tables": evaluation.tables, "examples": seen, "folder": args.out, "notes": evaluation.remarks}
        answer(plain(found))
        return
    say(evaluation)
    print_notes(evaluation.remarks)
    if args.out is not None:
        say(f"\n{seen} examples; tables and provenance written to {args.out}")
    else:
        say(f"\n{seen} examples; -o FOLDER keeps these tables, and those by share of words")


def print_effects(effects: "Effects", args: Namespace) -> None:
    """Print the effects of edits, notes on them, and where they were written."""
    seen = effects.provenance["seen"]["examples"]
    if args.json:
        answer(plain({"tables": effects.tables, "examples": seen, "folder": args.out, "notes": effects.remarks}))
        return
    say(effects)
    print_notes(effects.remarks)
    where = "-o FOLDER keeps the tables" if args.out is None else f"tables and provenance written to {args.out}"
    say(f"\n{seen} examples; {where}")
