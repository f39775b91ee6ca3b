"""Findings: what is worth knowing of a model, in sentences with numbers and their controls, computed from its tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conoscope.figures.base import Tables, name_of, runs_of
from conoscope.reporting.findings.claims import Answer, Claim, Control, Facts, Look, rows_of
from conoscope.reporting.findings.classes import classes
from conoscope.reporting.findings.cones import cone, rank
from conoscope.reporting.findings.heads import entropy, gates
from conoscope.reporting.findings.mixing import frequency, mixing, norms
from conoscope.reporting.findings.words import plausibility

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["QUESTIONS", "Answer", "Claim", "Control", "Finding", "Question", "find"]

MOST = 5
"""How many things are worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One sentence with its number, the figure that shows it, and the claims of the runs that it is written from."""

    text: str
    figure: str
    claims: Mapping[str, Claim] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Question:
    """Which table answers it, the figure that shows it, and what reads the table."""

    table: str
    figure: str
    look: Look


QUESTIONS = (
    Question("sim", "sim", cone),
    Question("class_cones.nearest", "nearest-cone", classes),
    Question("plausibility", "plausibility", plausibility),
    Question("gates.names", "gates", gates),
    Question("norms", "weights-and-norms", norms),
    Question("attention_entropy", "entropy", entropy),
    Question("effective_rank", "effective-rank", rank),
    Question("mixing", "mixing", mixing),
    Question("frequency", "frequency", frequency),
)
"""What is asked first comes first."""


def find(tables: Tables) -> list[Finding]:
    """The first five things that the tables tell; of several runs what each of them has, with the same evidence."""
    several = len(_runs(tables)) > 1
    facts = _facts(tables)
    found: list[Finding] = []
    for question in QUESTIONS:
        name = name_of(tables, question.table)
        if name is not None and len(found) < MOST and (answer := question.look(_rows(tables[name]), facts)) is not None:
            found.append(Finding(_written(answer, several), question.figure, answer.claims))
    return found


def _runs(tables: Tables) -> set[str]:
    """The names of the runs: from the table of runs, or from all tables where there is none."""
    known = [tables["runs"]] if "runs" in tables else tables.values()
    return {run for table in known if "run" in table for run in runs_of(table)}


def _written(answer: Answer, several: bool) -> str:
    if len(answer.claims) == 1 and not several:
        return next(iter(answer.claims.values())).alone()
    return f"{answer.subject}. {'; '.join(claim.beside(run) for run, claim in answer.claims.items())}."


def _rows(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows that have a value, unrounded, with the column `run`."""
    return (frame if "run" in frame else frame.assign(run="")).dropna(subset="value").reset_index(drop=True)


def _facts(tables: Tables) -> Facts:
    rows = rows_of(tables["runs"]) if "runs" in tables and "run" in tables["runs"] else {}
    return {run: row.to_dict() for run, row in rows.items()}
