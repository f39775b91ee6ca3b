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
    command.add_argument("-o", "--out", metavar="FILE", help="write the scores here as CSV, and the pairs beside them")
    command.add_argument("--batch-size", type=positive, default=64, help="texts in a batch")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--device", help="auto, cpu, cuda or cuda:1; default auto")
    command.add_argument("--seed", type=seed, default=0, help="of a corpus that is generated or cut by chance")
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.training.comparison import compare

    found = compare(args.models, corpus_from(args).first(args.limit), args.device, args.batch_size, progress=True)
    say(found)
    print_notes(found.notes)
    if args.out is not None:
        found.save(args.out)


COMMAND = Command(
    name="compare",
    help="compare models on a corpus: accuracy, F1, paired tests",
    example="conoscope compare runs/a runs/b --corpus bistro:test",
    options=_options,
    run=_run,
    loads_models=True,
)
