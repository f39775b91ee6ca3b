"""Output that several commands print: results, evaluations and notes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from conoscope.common.terminal import complain, say

if TYPE_CHECKING:
    from conoscope.explaining.evaluation import Evaluation
    from conoscope.results.result import Result


def print_notes(notes: Iterable[str]) -> None:
    """Print each distinct note on one line of standard error."""
    for note in dict.fromkeys(notes):
        complain(note)


def print_result(result: "Result", out: str | None) -> None:
    """Print a summary of the result, its notes, and where it was written."""
    say(result.summary())
    print_notes(result.provenance.get("notes", ()))
    for gap in result.provenance.get("gaps", ()):
        complain(f"{gap}; the tables lack it")
    if note := result.provenance.get("pool", {}).get("note"):
        complain(note)
    if not result.tables:
        complain(f"nothing to measure in this shard; {'nothing is' if out is None else 'its sums are'} kept for conoscope merge")
    seen = result.provenance["seen"]
    if seen["truncated"]:
        complain(f"{seen['truncated']} of {seen['examples']} texts were cut off at the longest input")
    if out is not None:
        say(f"\n{seen['examples']} examples; tables, provenance and sums written to {out}")


def print_evaluation(evaluation: "Evaluation", out: str | None) -> None:
    """Print the evaluation of maps, its notes, and where it was written."""
    say(evaluation)
    print_notes(evaluation.remarks)
    if out is not None:
        say(f"\n{evaluation.provenance['seen']['examples']} examples; tables and provenance written to {out}")
