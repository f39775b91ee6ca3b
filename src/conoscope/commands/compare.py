"""`conoscope compare`: compare models on a corpus."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.commands.option_types import positive, seed
from conoscope.commands.printing import print_notes
from conoscope.commands.shared_options import CORPUS, corpus_from, data_options
from conoscope.common.terminal import say


def _options(command: ArgumentParser) -> None:
    command.add_argument("models", nargs="+", help="folders written by conoscope train or save_pretrained, or Hub ids")
    command.add_argument("--corpus", required=True, help=CORPUS)
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

    comparison = compare(
        args.models, corpus_from(args).first(args.limit), device=args.device, batch_size=args.batch_size, progress=True
    )
    say(comparison)
    print_notes(comparison.notes)
    if args.out is not None:
        comparison.save(args.out)


COMMAND = Command(
    name="compare",
    help="compare models on a corpus: accuracy, F1, paired tests",
    example="conoscope compare runs/a runs/b --corpus bistro:test",
    options=_options,
    run=_run,
    loads_models=True,
)
