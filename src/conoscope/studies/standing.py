"""Standing: whether what the sources say stands, by the records of the studies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conoscope.common.errors import OutputError
from conoscope.studies import STUDIES
from conoscope.studies.earlier import is_earlier
from conoscope.studies.judging import NOT_JUDGED, UNDECIDED
from conoscope.studies.records import read_record
from conoscope.studies.rejudging import Record
from conoscope.studies.statements import STATEMENTS, Statement

STANDS, PARTLY, FALLS, OPEN = "stands", "stands in part", "does not stand", "open"
ASKED, NOT_RUN, UNTESTED = "asked", "not run yet", "not tested here"
AGAIN = "to be run again"
STANDINGS = {
    STANDS: "in every case the interval over seeds lies above the bound",
    PARTLY: "in some cases it does",
    FALLS: "in every case that could be judged it lies below",
    OPEN: "no case is above, and not all are below: the seeds do not decide",
    ASKED: "the source asks, and gives no answer; the claims are our expectations",
    AGAIN: "its claims were run in an earlier version of their study only (†), whose verdicts decide nothing here",
    NOT_RUN: "a claim that tests it is not in the records yet",
    UNTESTED: "no claim can test it here; the page of claims says why",
}
"""The standings of a statement, and what each means."""
HOLDING, FALLING = "yes", "no"


@dataclass(frozen=True)
class Outcome:
    """A claim as its record has it: the answer in each case; no answers if it was not run. `earlier`: the record is of an earlier
    version of the study. `models`: ours, if the source is about another model."""

    study: str
    claim: str
    answers: tuple[str, ...] = ()
    seeds: str = ""
    gated: int = 0
    earlier: bool = False
    models: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """The verdict in words, as in records: over the cases that this outcome is about."""
        if not self.answers:
            return NOT_RUN
        apart = f", {count} not judged" if (count := self.answers.count(NOT_JUDGED)) else ""
        if not decided(self.answers):
            return NOT_JUDGED if apart else "cannot be told"
        found = {STANDS: "holds", FALLS: "does not hold", OPEN: "unclear"}.get(standing_of(self.answers))
        return (found or f"holds in {self.answers.count(HOLDING)} of {len(self.answers)} cases") + apart

    @property
    def verdict(self) -> str:
        """The verdict, with the numbers of cases and seeds."""
        if not self.answers:
            return NOT_RUN
        cases = [] if len(self.answers) == 1 or " cases" in self.answer else [f"{len(self.answers)} cases"]
        models = [f"for {' and '.join(self.models)}"] if self.models else []
        gated = [f"up to {self.gated} runs of a case below the gate"] if self.gated else []
        earlier = ["earlier version"] if self.earlier else []
        return f"{self.answer} ({', '.join([*models, *cases, f'{self.seeds} seeds', *gated, *earlier])})"


def records_in(folder: str | Path) -> dict[str, Record]:
    """The records of a folder by study; those of the quick form are left out."""
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise OutputError(f"no records in {folder}; expected files written by conoscope reproduce, one for each study")
    records = (read_record(path) for path in paths)
    return {record["study"]: record for record in records if not record["quick"]}


def outcome(study: str, claim: str, records: Mapping[str, Record], cases: str = "") -> Outcome:
    """A claim as the records have it, in the cases that have this part in their names."""
    record = records.get(study)
    found = [] if record is None else [one for one in record["claims"] if one["name"] == claim]
    here = [case for one in found for case in one["cases"] if cases in case["case"]]
    if record is None or not here:
        return Outcome(study, claim)
    answers = tuple(case["answer"] for case in here)
    return Outcome(study, claim, answers, _seeds(here), _gated(here), is_earlier(record), other_models(record))


def other_models(record: Record) -> tuple[str, ...]:
    """The models of a record, if all figures of its source are of another model than these."""
    published = {one.model for one in STUDIES[record["study"]].published}
    ours = dict.fromkeys(str(run["keys"]["model"]) for run in record["runs"] if "model" in run["keys"])
    return () if not published or None in published or not published.isdisjoint(ours) else tuple(ours)


def _seeds(cases: Iterable[Mapping[str, Any]]) -> str:
    counts = sorted({int(case["seeds"]) for case in cases})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _gated(cases: Iterable[Mapping[str, Any]]) -> int:
    return max(int(case.get("gated", 0)) for case in cases)


def outcomes(statement: Statement, records: Mapping[str, Record]) -> list[Outcome]:
    """The claims that test a statement, as the records have them."""
    return [outcome(study, claim, records, statement.cases) for study, claim in statement.claims]


def standing(statement: Statement, records: Mapping[str, Record]) -> str:
    """Whether the statement stands: one of `STANDINGS`."""
    found = outcomes(statement, records)
    if not found:
        return UNTESTED
    if not all(one.answers for one in found):
        return NOT_RUN
    if any(one.earlier for one in found):
        return AGAIN
    if statement.asks:
        return ASKED
    return standing_of([answer for one in found for answer in one.answers])


def standing_of(answers: Sequence[str]) -> str:
    """The standing by the answers in all cases."""
    holding = answers.count(HOLDING)
    if holding == len(answers):
        return STANDS
    if holding:
        return PARTLY
    return FALLS if decided(answers) and all(answer == FALLING for answer in decided(answers)) else OPEN


def decided(answers: Sequence[str]) -> list[str]:
    """The answers of cases that were judged, on enough runs."""
    return [answer for answer in answers if answer not in UNDECIDED]


def unstated() -> list[tuple[str, str]]:
    """The claims of studies that no statement names."""
    named = {pair for statement in STATEMENTS for pair in statement.claims}
    every = [(study.name, claim.name) for study in STUDIES.values() for claim in study.claims]
    return [pair for pair in every if pair not in named]
