"""`conoscope gates`: show the gate type of each head."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from conoscope.commands.base import Command
from conoscope.commands.printing import plain
from conoscope.common.terminal import answer, doing, say


def _options(command: ArgumentParser) -> None:
    command.add_argument("results", metavar="OUT", help="a folder written by conoscope measure (with gates) or demo")
    command.add_argument(
        "--threshold", action="append", default=[], metavar="NAME=NUMBER",
        help="set a threshold, such as open.entropy=0.7; repeat for more",
    )  # fmt: skip


def _run(args: Namespace) -> None:
    from conoscope.measuring.gates import gate_map, sort_gates, thresholds
    from conoscope.reporting.folders import parts_of
    from conoscope.results.result import Result

    limits = thresholds(args.threshold)
    doing(f"reading {args.results}")
    found = sort_gates(Result.load(parts_of(Path(args.results))[0]), limits)
    if args.json:
        answer(plain(found))
        return
    say(gate_map(found))


COMMAND = Command(
    name="gates",
    help="show the gate type of each head, with any thresholds",
    example="conoscope gates out/ --threshold open.entropy=0.7",
    options=_options,
    run=_run,
    as_json=True,
)
