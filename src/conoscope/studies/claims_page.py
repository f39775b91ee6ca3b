"""The page of claims: what each source says, the claims that test it and their verdicts; and what README.md says of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conoscope.common.errors import OutputError
from conoscope.common.writing import write_text
from conoscope.studies import STUDIES
from conoscope.studies.base import Study
from conoscope.studies.earlier import EARLIER, is_earlier
from conoscope.studies.rejudging import Record
from conoscope.studies.standing import NOT_RUN, STANDINGS, UNTESTED, Outcome, outcome, outcomes, standing, unstated
from conoscope.studies.statements import BEYOND, OURS, SOURCES, STATEMENTS, Statement

COMMAND = "conoscope list claims --records results --page docs/studies/claims.md"
BEGIN, END = "<!-- begin: written by conoscope list claims --page -->", "<!-- end -->"
"""Markers in a README.md beside the page, between which the summary is written."""
DECIDES = "fosse-ablation"
"""The study that asks what the narrow cones of table 1 depend on."""
DATED = " †"
"""What marks a verdict of an earlier version."""
MARKED = f"{DATED.strip()} {EARLIER}"


def claims_text(records: Mapping[str, Record]) -> str:
    """Every statement with its claims and their verdicts, for the terminal."""
    return "\n".join(_lines(records))


def _lines(records: Mapping[str, Record]) -> Iterator[str]:
    for statement in STATEMENTS:
        figures = f" ({statement.figures})" if statement.figures else ""
        yield f"{statement.source}, {statement.place}{figures}\n  {statement.says}"
        yield from (f"  {one.study} {one.claim}: {one.verdict}" for one in outcomes(statement, records))
        yield from [f"  {UNTESTED}: {statement.untestable}"] if statement.untestable else []
    yield "In no source"
    yield from (f"  {study} {claim}: {outcome(study, claim, records).verdict}" for study, claim in unstated())


def claims_records(records: Mapping[str, Record]) -> list[dict[str, Any]]:
    """Every statement as a dictionary: source, place, standing, claims with their verdicts, or why there are none."""
    return [
        {
            "source": one.source,
            "place": one.place,
            "statement": one.says,
            "standing": standing(one, records),
            "claims": [{"study": each.study, "claim": each.claim, "verdict": each.verdict} for each in outcomes(one, records)],
            "untestable": one.untestable or None,
        }
        for one in STATEMENTS
    ]


def write_claims(records: Mapping[str, Record], path: str | Path) -> list[Path]:
    """Write the page; where a README.md with the markers lies beside it, also its summary. Return the files written."""
    target = Path(path)
    beside = target.with_name("README.md")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, claims_page(records))
        text = beside.read_text(encoding="utf-8") if beside.is_file() else ""
        if BEGIN not in text:
            return [target]
        write_text(beside, with_summary(text, records))
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}; give --page another file") from error
    return [target, beside]


def with_summary(text: str, records: Mapping[str, Record]) -> str:
    """The text with the summary between its markers."""
    before, rest = text.split(BEGIN, 1)
    if END not in rest:
        raise OutputError(f"README.md has no line {END!r} after its first marker; add it, or remove that marker")
    return f"{before}{BEGIN}\n\n{summary(records)}\n{END}{rest.split(END, 1)[1]}"


def claims_page(records: Mapping[str, Record]) -> str:
    """The page as text: a pure function of the statements, the studies and the records."""
    return "\n".join((*_opening(records), *_stated(records), *_unstated(records), ""))


def _opening(records: Mapping[str, Record]) -> Iterator[str]:
    yield from ("# Claims", "")
    yield "What the sources say, in our own words, with its place; beside it the claims of [studies](README.md) that test it,"
    yield "or the reason why nothing here can. Verdicts are those of the committed records, over all cases that a statement is"
    yield "about, with the number of seeds of a case. A claim that its record does not have is not run yet. Where our model is"
    yield "another than the source's, it is named: the statement stands or falls for that model alone. Figures that the source"
    yield "prints stand below the place: pages of the studies have ours beside them, and no standing here is of them."
    yield ""
    yield from ("```console", f"$ {COMMAND}", "```", "")
    yield from [MARKED, ""] if any(map(is_earlier, records.values())) else []


def _stated(records: Mapping[str, Record]) -> Iterator[str]:
    for source, name in SOURCES.items():
        yield from (f"## Source {source}", "", f"{name}.", "")
        here = [statement for statement in STATEMENTS if statement.source == source]
        rows = [(_place(one), one.says, *_cells(one, records), standing(one, records)) for one in here]
        yield from table(("place", "statement", "claims", "verdicts", "standing"), rows)


def _place(statement: Statement) -> str:
    return f"{statement.place}<br>({statement.figures})" if statement.figures else statement.place


def _cells(statement: Statement, records: Mapping[str, Record]) -> tuple[str, str]:
    """The claims of a statement, and their verdicts, line by line; or the reason why there is none."""
    found = outcomes(statement, records)
    if not found:
        return "none", statement.untestable
    return "<br>".join(_named(one, records) for one in found), "<br>".join(one.verdict for one in found)


def _unstated(records: Mapping[str, Record]) -> Iterator[str]:
    yield from ("## Claims that are in no source", "")
    yield f'"{OURS}": of our own invention. The others are printed or stated elsewhere, and no statements of the sources either.'
    yield ""
    rows = []
    for study, claim in unstated():
        one = outcome(study, claim, records)
        (says,) = (known.statement for known in STUDIES[study].claims if known.name == claim)
        rows.append((_named(one, records), says, BEYOND.get((study, claim), OURS), one.verdict))
    yield from table(("claim", "statement", "from", "verdict"), rows)


def _named(one: Outcome, records: Mapping[str, Record]) -> str:
    return f"{linked(one.study, records)}: {one.claim}"


def linked(study: str, records: Mapping[str, Record]) -> str:
    """The name of a study with a link to its page, which exists where the study has a record."""
    return f"[{study}]({study}.md)" if study in records else study


def summary(records: Mapping[str, Record]) -> str:
    """What stands, what does not, and what decides it, as Markdown."""
    dated = [MARKED, ""] if any(map(is_earlier, records.values())) else []
    return "\n".join((*_counted(records), *dated, *_by_standing(records), *_decides(records), *_of_records(records)))


def _counted(records: Mapping[str, Record]) -> Iterator[str]:
    rows = []
    for found, means in STANDINGS.items():
        here = [one for one in STATEMENTS if standing(one, records) == found]
        dated = sum(any(each.earlier for each in outcomes(one, records)) for one in here)
        rows += [(found, str(len(here)), str(dated or ""), means)] if here else []
    yield from table(("standing", "statements", "of an earlier version", "which means that"), rows)


def _by_standing(records: Mapping[str, Record]) -> Iterator[str]:
    for found in STANDINGS:
        here = [] if found == UNTESTED else [one for one in STATEMENTS if standing(one, records) == found]
        if here:
            yield from (f"**{found[0].upper()}{found[1:]}.**", "")
            yield from (_told(same, records) for same in _together(here))
            yield ""


def _together(statements: Iterable[Statement]) -> list[list[Statement]]:
    """Statements that the same claims test in the same cases, together."""
    groups: dict[tuple[object, str], list[Statement]] = {}
    for one in statements:
        groups.setdefault((frozenset(one.claims), one.cases), []).append(one)
    return list(groups.values())


def _told(same: Sequence[Statement], records: Mapping[str, Record]) -> str:
    """The first of some statements with the places of all, and the verdicts on their claims."""
    places = "; ".join(
        f"{source}: {_places(one.place for one in same if one.source == source)}"
        for source in dict.fromkeys(one.source for one in same)
    )
    found = outcomes(same[0], records)
    studies = {study: [one for one in found if one.study == study] for study in dict.fromkeys(one.study for one in found)}
    verdicts = "; ".join(f"{linked(study, records)}: {', '.join(map(_answer, here))}" for study, here in studies.items())
    return f"- {same[0].says} *{places}.* {verdicts}."


def _places(places: Iterable[str]) -> str:
    """Each place once, and what several begin with once: "table 1 (first point; second point)"."""
    within: dict[str, list[str]] = {}
    for place in dict.fromkeys(places):
        head, _, tail = place.partition(", ")
        within.setdefault(head, []).append(tail)
    return " and ".join(_within(head, [tail for tail in tails if tail], "" in tails) for head, tails in within.items())


def _within(head: str, tails: Sequence[str], itself: bool) -> str:
    if len(tails) + itself == 1:
        return ", ".join((head, *tails))
    return f"{head} ({'and ' if itself else ''}{'; '.join(tails)})"


def _answer(one: Outcome) -> str:
    models = f" for {' and '.join(one.models)}" if one.models else ""
    return f"`{one.claim}` {one.answer}{models}{DATED if one.earlier else ''}"


def _decides(records: Mapping[str, Record]) -> Iterator[str]:
    yield from ("**What decides it.**", "")
    if DECIDES not in STUDIES:
        yield f"The study that asks it, {DECIDES}, is not there yet."
    else:
        here = [outcome(DECIDES, claim.name, records) for claim in STUDIES[DECIDES].claims]
        says = {claim.name: claim.statement for claim in STUDIES[DECIDES].claims}
        yield from table(("claim", "statement", "verdict"), [(one.claim, says[one.claim], one.verdict) for one in here])
    yield ""


def _of_records(records: Mapping[str, Record]) -> Iterator[str]:
    yield from ("**The studies.**", "")
    yield from table(("study", "", "claims", "record"), [_study(study, records) for study in STUDIES.values()])


def _study(study: Study, records: Mapping[str, Record]) -> tuple[str, ...]:
    """A study, its claims with their verdicts, and of what version its record is."""
    claims = "; ".join(_answer(outcome(study.name, claim.name, records)) for claim in study.claims)
    if (record := records.get(study.name)) is None:
        return study.name, study.title, claims, NOT_RUN
    version = f"earlier version{DATED}" if is_earlier(record) else "present conditions"
    left = 0 if is_earlier(record) else sum(len(one["seeds"]) for one in record.get("left", ()))
    runs = f"{version}: {len(record['runs'])} runs, {len(record['seeds'])} seeds{f', {left} runs left' if left else ''}"
    return linked(study.name, records), study.title, claims, runs


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A Markdown table, and an empty line."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    yield ""
