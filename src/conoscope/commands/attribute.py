"""`conoscope attribute`: split the answer over what embeddings, heads and feed-forward parts add to it."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.commands.option_types import count, positive, shard
from conoscope.commands.printing import print_effects
from conoscope.commands.shared_options import CORPUS, MODEL, corpus_from, data_options, fields_from, inference_options, out_option


def _options(command: ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    out_option(command)
    command.add_argument(
        "--texts", type=count, default=20, metavar="N", help="rows of their own, and words, of the first N texts; default 20"
    )
    command.add_argument("--batch-size", type=positive, metavar="N", help="texts per batch; default 32, on a GPU 128")
    command.add_argument("--limit", type=positive, metavar="N", help="only the first N texts")
    command.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="only part I of N, for conoscope merge")
    inference_options(command)
    data_options(command)


def _run(args: Namespace) -> None:
    from conoscope.causes.attribution import Attributing, attribute

    options = Attributing(**fields_from(args, Attributing), progress=True)
    print_effects(attribute(args.model, corpus_from(args), options, args.out), args)


COMMAND = Command(
    name="attribute",
    help="split the answer over what words, heads and feed-forward parts add to it",
    example="conoscope attribute runs/pure bistro:test -o attributed/\n"
    "conoscope attribute my-model/ reviews.csv --text review --limit 500 --dtype float64 --json",
    options=_options,
    run=_run,
    loads_models=True,
    as_json=True,
)
