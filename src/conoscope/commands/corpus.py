"""`conoscope corpus`: describe a corpus."""

import shutil
from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.commands.option_types import count, positive, seed
from conoscope.commands.printing import plain
from conoscope.commands.shared_options import columns_from, data_options
from conoscope.common.terminal import answer, say


def _options(command: ArgumentParser) -> None:
    command.add_argument(
        "corpus", metavar="CORPUS",
        help="a corpus or a folder of splits (all, or one as in imdb:test), a file of texts, or hub:ID:SPLIT",
    )  # fmt: skip
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts of each split")
    command.add_argument(
        "--samples",
        type=count,
        metavar="N",
        help="number of texts to show; default one of each class, at least 3, or 0 for corpora with offensive texts",
    )
    command.add_argument("--vectors", metavar="SOURCE", help="also print how many words have a vector in this file or package")
    command.add_argument("--seed", type=seed, default=0, help="seed of a generated corpus, or of a random split")
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.corpora.describe import Survey, survey

    width = shutil.get_terminal_size((120, 24)).columns
    options = Survey(args.samples, args.vectors, args.limit, width)
    found = survey(args.corpus, columns_from(args), args.seed, args.data_dir, options)
    if args.json:
        answer(plain(found.record()))
        return
    say(found)


COMMAND = Command(
    name="corpus",
    help="describe a corpus: counts, label balance, lengths, samples",
    example="conoscope corpus imdb --data-dir data/\nconoscope corpus reviews.csv --text review --label stars",
    options=_options,
    run=_run,
    as_json=True,
)
