"""`conoscope report`: write one HTML page."""

from argparse import ArgumentParser, Namespace

from conoscope.commands.base import Command
from conoscope.common.terminal import say
from conoscope.common.textfiles import readable


def _options(command: ArgumentParser) -> None:
    command.add_argument(
        "results", nargs="+", metavar="OUT",
        help="folders written by conoscope measure, plausibility or faithfulness, and files of conoscope explain; several are "
        "shown side by side, under names that you may give, as in before=out-1/ after=out-2/",
    )  # fmt: skip
    command.add_argument("-o", "--out", default="report.html", metavar="FILE", help="the page to write")
    command.add_argument("--title", type=readable, help="of the page; default what was measured")


def _run(args: Namespace) -> None:
    from conoscope.reporting import report

    say(report(args.results, args.out, args.title, progress=True))


COMMAND = Command(
    name="report",
    help="write one page of HTML with every figure and table",
    example="conoscope report out/ -o report.html",
    options=_options,
    run=_run,
)
