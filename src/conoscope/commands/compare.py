"""`conoscope compare`: compare models on a corpus, or what was measured of two."""

import shlex
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from conoscope.commands.base import Command, Unused
from conoscope.commands.option_types import positive, seed
from conoscope.commands.printing import plain, print_notes
from conoscope.commands.shared_options import CORPUS, corpus_from, data_options
from conoscope.common.errors import CorpusError, MeasureError
from conoscope.common.terminal import answer, complain, say
from conoscope.common.textfiles import readable

if TYPE_CHECKING:
    from conoscope.results.differences import Differences

FILE = "both.html"
EXAMPLE = "conoscope compare runs/a runs/b bistro:test"
OF_MODELS = ("batch_size", "limit", "device", "seed", "text", "pair", "label", "rationale", "label_names", "data_dir")
"""Options that have no effect on measured folders."""


def _options(command: ArgumentParser) -> None:
    command.usage = "conoscope compare [OPTIONS] MODEL [MODEL ...] CORPUS\n       conoscope compare [OPTIONS] BEFORE/ AFTER/"
    command.add_argument(
        "models", nargs="+", metavar="MODEL",
        help="folders written by conoscope train or save_pretrained, or Hub ids; or two folders of conoscope measure, whose "
        "differences are printed, the second minus the first; you can name them, as in before=out-1/ after=out-2/",
    )  # fmt: skip
    command.add_argument("corpus", nargs="?", metavar="CORPUS", help=f"last, {CORPUS}")
    command.add_argument("--corpus", dest="old_corpus", help=SUPPRESS)
    command.add_argument(
        "-o", "--out", metavar="FILE",
        help="write the scores to this CSV file, and the pairwise tests to a second one beside it; of two measured folders, "
        "write the tables of differences (parquet, CSV) to this folder",
    )  # fmt: skip
    command.add_argument("--tables", action="store_true", help="of two measured folders, print every table of differences")
    command.add_argument("--batch-size", type=positive, default=64, help="texts per batch")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--seed", type=seed, default=0, help="seed of a generated corpus, or of a random split")
    data_options(command)


def _run(args: Namespace) -> None:
    if _two_measured(args):
        _print_differences(_differences(args.models), args)
        return
    from conoscope.training.comparison import DIFFERENCE, compare

    _take_the_corpus(args)
    _refuse_measured(args)
    corpus = corpus_from(args).first(args.limit)
    comparison = compare(args.models, corpus, device=args.device, batch_size=args.batch_size, progress=True)
    print_notes(comparison.notes)
    if args.out is not None:
        comparison.save(args.out)
    if args.json:
        found = {"scores": comparison.scores, "pairs": comparison.pairs, "difference": DIFFERENCE, "notes": comparison.notes}
        answer(plain({**found, "written": args.out}))
        return
    say(comparison)
    if args.out is not None:
        say(f"\nscores written to {args.out}, pairs beside it")


def _two_measured(args: Namespace) -> bool:
    """Whether two folders of results are given, and no corpus."""
    from conoscope.reporting.folders import holds_results

    given = args.models if args.old_corpus is None else []
    return len(given) == 2 and all(holds_results(Path(_split(each)[1])) for each in given)


def _split(given: str) -> tuple[str, str]:
    """The name that a folder is given, and the folder: of `before=out/`, `before` and `out/`."""
    from conoscope.reporting.gathering import given_name

    name, folder = given_name(given)
    return name, str(folder)


def _differences(given: list[str]) -> "Differences":
    """The second of two measured folders minus the first, under the names that they are given, or those of the folders."""
    from conoscope.reporting.folders import parts_of
    from conoscope.results.result import Result

    named = [_split(each) for each in given]
    if len({Path(folder).resolve() for _, folder in named}) != 2:
        raise MeasureError(f"{given[0]} is given twice; give two folders, as in conoscope compare before/ after/")
    one, other = (Result.load(parts_of(Path(folder))[0]) for _, folder in named)
    short = [readable(name or Path(folder).name) for name, folder in named]
    names = short if len(set(short)) == 2 else [readable(folder) for _, folder in named]
    return one.compare(other, names)


def _print_differences(differences: "Differences", args: Namespace) -> None:
    from conoscope.reporting.differing import record, shown_text

    found = record(differences)
    if args.out is not None:
        differences.save(args.out)
    if args.json:
        tables = {"tables": differences} if args.tables else {}
        answer(plain({**found, "folder": args.out, **tables}))
        return
    say(shown_text(differences))
    for name in differences if args.tables else ():
        say(f"\n{name}, {differences.direction}\n{differences[name].to_string(index=False)}")
    where = "all tables: --tables prints them, -o FOLDER writes them" if args.out is None else f"all tables written to {args.out}"
    say(f"\n{where}; figures: conoscope report {shlex.join(args.models)} -o {FILE}")


def _take_the_corpus(args: Namespace) -> None:
    """Take the last argument as the corpus; with --corpus, as before, all are models."""
    if args.old_corpus is not None:
        args.corpus = args.old_corpus
        complain(f"--corpus goes with the next version; type conoscope compare {' '.join(args.models)} {args.corpus}")
        return
    *args.models, args.corpus = args.models
    if not args.models:
        from conoscope.reporting.folders import holds_results

        if holds_results(Path(_split(args.corpus)[1])):
            raise CorpusError(f"{args.corpus} is one measured folder; give two, as in conoscope compare before/ after/")
        raise CorpusError(f"one argument, {args.corpus!r}, where models and a corpus belong; as in {EXAMPLE}")


def _refuse_measured(args: Namespace) -> None:
    """Raise CorpusError if folders of results stand where models and a corpus belong."""
    from conoscope.reporting.folders import holds_results

    measured = [given for given in (*args.models, args.corpus) if holds_results(Path(_split(given)[1]))]
    if measured:
        several = [f"{Path(given).name}={given}" for given in measured]
        typed = shlex.join(several if len(set(map(Path, measured))) == len(measured) > 1 else measured)
        what = "is a measured folder and no model" if len(measured) == 1 else "are measured folders and no models"
        raise CorpusError(f"{' and '.join(measured)} {what}; type conoscope report {typed} -o {FILE}")


def _unused(args: Namespace) -> Unused:
    if _two_measured(args):
        yield OF_MODELS, "for two measured folders"
    else:
        yield ("tables",), "without two measured folders"


COMMAND = Command(
    name="compare",
    help="compare models on a corpus (accuracy, F1, paired tests), or what was measured of two",
    example=f"{EXAMPLE}\nconoscope compare before/ after/",
    options=_options,
    run=_run,
    unused=_unused,
    loads_models=True,
    as_json=True,
)
