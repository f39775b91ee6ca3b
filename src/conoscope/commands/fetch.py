"""`conoscope fetch`: download a corpus or word vectors."""

import sys
from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.common.terminal import say


def _options(command: ArgumentParser) -> None:
    command.add_argument("name", metavar="CORPUS", help="a corpus (conoscope list corpora), or glove for word vectors")
    command.add_argument("--data-dir", metavar="DIR", help="folder to download to; default $CONOSCOPE_DATA or a cache")


def _run(args: Namespace) -> None:
    from conoscope.corpora.fetch import fetch

    for path in fetch(args.name, args.data_dir, progress=sys.stderr.isatty()):
        say(path)


COMMAND = Command(
    name="fetch",
    help="download a corpus or word vectors",
    example="conoscope fetch imdb",
    options=_options,
    run=_run,
)
