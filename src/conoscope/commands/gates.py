"""`conoscope gates`: show the gate type of each head."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.common.terminal import say


def _options(command: ArgumentParser) -> None:
    command.add_argument("results", metavar="OUT", help="a folder written by conoscope measure -m gates")
    command.add_argument(
        "--threshold", action="append", default=[], metavar="NAME=NUMBER",
        help="set a threshold, such as open.entropy=0.7; repeat for more",
    )  # fmt: skip


def _run(args: Namespace) -> None:
    from conoscope.measuring.gates import gate_map, sort_gates, thresholds
    from conoscope.results.result import Result

    limits = thresholds(args.threshold)
    say(gate_map(sort_gates(Result.load(args.results), limits)))


COMMAND = Command(
    name="gates",
    help="show the gate type of each head, with any thresholds",
    example="conoscope gates out/ --threshold open.entropy=0.7",
    options=_options,
    run=_run,
)
