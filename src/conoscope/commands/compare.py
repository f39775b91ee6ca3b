"""`conoscope compare`: compare models on a corpus."""

import shlex
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from conoscope.commands.base import Command
from conoscope.commands.option_types import positive, seed
from conoscope.commands.printing import plain, print_notes
from conoscope.commands.shared_options import CORPUS, corpus_from, data_options
from conoscope.common.errors import CorpusError
from conoscope.common.terminal import answer, complain, say

FILE = "both.html"


def _options(command: ArgumentParser) -> None:
    command.usage = "conoscope compare [OPTIONS] MODEL [MODEL ...] CORPUS"
    command.add_argument(
        "models", nargs="+", metavar="MODEL", help="folders written by conoscope train or save_pretrained, or Hub ids"
    )
    command.add_argument("corpus", nargs="?", metavar="CORPUS", help=f"last, {CORPUS}")
    command.add_argument("--corpus", dest="old_corpus", help=SUPPRESS)
    command.add_argument(
        "-o", "--out", metavar="FILE", help="write the scores to this CSV file, and the pairwise tests to a second one beside it"
    )
    command.add_argument("--batch-size", type=positive, default=64, help="texts per batch")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--seed", type=seed, default=0, help="seed of a generated corpus, or of a random split")
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.training.comparison import compare

    _take_the_corpus(args)
    _refuse_measured(args)
    corpus = corpus_from(args).first(args.limit)
    comparison = compare(args.models, corpus, device=args.device, batch_size=args.batch_size, progress=True)
    print_notes(comparison.notes)
    if args.out is not None:
        comparison.save(args.out)
    if args.json:
        answer(plain({"scores": comparison.scores, "pairs": comparison.pairs, "notes": comparison.notes, "written": args.out}))
        return
    say(comparison)
    if args.out is not None:
        say(f"\nscores written to {args.out}, pairs beside it")


def _take_the_corpus(args: Namespace) -> None:
    """Take the last argument as the corpus; with --corpus, as before, all are models."""
    if args.old_corpus is not None:
        args.corpus = args.old_corpus
        complain(f"--corpus goes with the next version; type conoscope compare {' '.join(args.models)} {args.corpus}")
        return
    *args.models, args.corpus = args.models
    if not args.models:
        raise CorpusError(f"one argument, {args.corpus!r}, where models and a corpus belong; as in {COMMAND.example}")


def _refuse_measured(args: Namespace) -> None:
    """Raise CorpusError if folders of results stand where models and a corpus belong."""
    from conoscope.reporting.folders import holds_results

    measured = [given for given in (*args.models, args.corpus) if holds_results(Path(given))]
    if measured:
        several = [f"{Path(given).name}={given}" for given in measured]
        typed = shlex.join(several if len(set(map(Path, measured))) == len(measured) > 1 else measured)
        what = "is a measured folder and no model" if len(measured) == 1 else "are measured folders and no models"
        raise CorpusError(f"{' and '.join(measured)} {what}; type conoscope report {typed} -o {FILE}")


COMMAND = Command(
    name="compare",
    help="compare models on a corpus: accuracy, F1, paired tests",
    example="conoscope compare runs/a runs/b bistro:test",
    options=_options,
    run=_run,
    loads_models=True,
    as_json=True,
)
