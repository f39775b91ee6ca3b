"""`conoscope corpus`: describe a corpus."""

import shutil
from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.commands.option_types import count, positive, seed
from conoscope.commands.shared_options import columns_from, data_options
from conoscope.common.terminal import say


def _options(command: ArgumentParser) -> None:
    command.add_argument("corpus", help="a corpus (all splits, or one as in imdb:test), a file of texts, or hub:ID:SPLIT")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts of each split")
    command.add_argument(
        "--samples", type=count, metavar="N", help="number of texts to show; default 3, or 0 for corpora with offensive texts"
    )
    command.add_argument("--vectors", metavar="SOURCE", help="also print how many words have a vector in this file or package")
    command.add_argument("--seed", type=seed, default=0, help="seed of a generated corpus, or of a random split")
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.corpora.describe import Survey, survey

    width = shutil.get_terminal_size((120, 24)).columns
    options = Survey(args.samples, args.vectors, args.limit, width)
    say(survey(args.corpus, columns_from(args), args.seed, args.data_dir, options))


COMMAND = Command(
    name="corpus",
    help="describe a corpus: counts, label balance, lengths, samples",
    example="conoscope corpus imdb --data-dir data/",
    options=_options,
    run=_run,
)
