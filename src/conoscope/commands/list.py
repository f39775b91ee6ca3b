"""`conoscope list`: list the measures, maps, figures, corpora, presets, studies or claims, a few lines each."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from conoscope.commands.base import Command, Unused
from conoscope.commands.printing import plain
from conoscope.common.errors import one_of
from conoscope.common.options import options_of
from conoscope.common.terminal import answer, say

if TYPE_CHECKING:
    from conoscope.corpora import Entry


def _options(command: ArgumentParser) -> None:
    command.add_argument("what", choices=(*LISTED, CLAIMS), help="what to list")
    command.add_argument("--records", metavar="FOLDER", help="claims: also give the verdicts of the records in this folder")
    command.add_argument(
        "--page", metavar="FILE", help="claims: also write a Markdown page, and the summary of a README.md beside it"
    )


def _run(args: Namespace) -> None:
    if args.what == CLAIMS:
        _claims(args)
    elif args.json:
        answer(plain(RECORDS[args.what]()))
    else:
        say(LISTED[args.what]())


def _unused(args: Namespace) -> Unused:
    if args.what != CLAIMS:
        yield ("records", "page"), f"for {args.what}"


def _claims(args: Namespace) -> None:
    from conoscope.studies.claims_page import claims_records, claims_text, write_claims
    from conoscope.studies.standing import records_in

    records = {} if args.records is None else records_in(args.records)
    written = [] if args.page is None else write_claims(records, args.page)
    if args.json:
        answer(plain(claims_records(records)))
        return
    say(claims_text(records))
    if written:
        say(f"\nwritten: {', '.join(map(str, written))}")


def _measures() -> str:
    from conoscope.measures import CATALOGUE, describe

    return "\n".join(_block(describe(measure)) for measure in CATALOGUE.values())


def _maps() -> str:
    from conoscope.explaining import described

    return described()


def _figures() -> str:
    from conoscope.figures import FIGURES

    rows = [(figure.name, figure.title, one_of(figure.needs)) for figure in FIGURES.values()]
    positions = ("positions", "Products of sinusoidal positions", "nothing: give no folder")
    return "\n".join(f"{name}\n  {title}\n  from {needs}" for name, title, needs in (*rows, positions))


def _corpora() -> str:
    from conoscope.corpora import CORPORA

    return "\n".join(f"{name:15} {entry.what}{_choices(entry)}" for name, entry in CORPORA.items())


def _presets() -> str:
    from conoscope.models.family import PRESETS

    shapes = {name: ", ".join(f"{key} {value}" for key, value in shape.items()) for name, shape in PRESETS.items()}
    return "\n".join(f"{name:15} {shape}" for name, shape in shapes.items())


def _studies() -> str:
    from conoscope.studies import STUDIES

    return "\n".join(
        f"{study.name}\n  {study.title}\n  {study.source}\n  {len(study.conditions)} models, {study.seeds} seeds each; "
        f"claims: {', '.join(claim.name for claim in study.claims)}"
        for study in STUDIES.values()
    )


def _choices(entry: "Entry") -> str:
    return f" (options: {options_of(entry.choices)})" if entry.choices else ""


def _block(described: dict[str, Any]) -> str:
    facts = "; ".join((f"within {described['within']}", f"options: {described['options']}", described["source"]))
    tables = "".join(f"\n  {table}" for table in described["tables"])
    return f"{described['measure']}\n  {described['what']}\n  {facts}{tables}"


CLAIMS = "claims"
"""What is listed with the verdicts of records."""
LISTED: dict[str, Callable[[], str]] = {
    "measures": _measures,
    "maps": _maps,
    "figures": _figures,
    "corpora": _corpora,
    "presets": _presets,
    "studies": _studies,
}


def _measure_records() -> list[dict[str, Any]]:
    from conoscope.measures import CATALOGUE, describe

    return [describe(measure) for measure in CATALOGUE.values()]


def _map_records() -> list[dict[str, Any]]:
    from conoscope.explaining import METHODS

    return [
        {"map": method.name, "what": method.summary, "options": options_of(method.choices), "source": method.source}
        for method in METHODS.values()
    ]


def _figure_records() -> list[dict[str, Any]]:
    from conoscope.figures import FIGURES

    found = [{"figure": figure.name, "title": figure.title, "tables": list(figure.needs)} for figure in FIGURES.values()]
    return [*found, {"figure": "positions", "title": "Products of sinusoidal positions", "tables": []}]


def _corpus_records() -> list[dict[str, Any]]:
    from conoscope.corpora import CORPORA

    return [
        {"corpus": name, "what": entry.what, "splits": list(entry.splits), "options": options_of(entry.choices)}
        for name, entry in CORPORA.items()
    ]


def _preset_records() -> list[dict[str, Any]]:
    from conoscope.models.family import PRESETS

    return [{"preset": name, **shape} for name, shape in PRESETS.items()]


def _study_records() -> list[dict[str, Any]]:
    from conoscope.studies import STUDIES

    return [
        {"study": study.name, "title": study.title, "source": study.source, "models": len(study.conditions), "seeds": study.seeds}
        for study in STUDIES.values()
    ]


RECORDS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "measures": _measure_records,
    "maps": _map_records,
    "figures": _figure_records,
    "corpora": _corpus_records,
    "presets": _preset_records,
    "studies": _study_records,
}

COMMAND = Command(
    name="list",
    help="list the measures, maps, figures, corpora, presets, studies or claims",
    example="conoscope list measures",
    options=_options,
    run=_run,
    unused=_unused,
    as_json=True,
)
